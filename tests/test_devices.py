"""What is said of GPUs, where there is none: a list, a table of kernels, a way to a device."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from arborvox.doctor import show_findings
from arborvox.hsoftmax import dispatch
from arborvox.kernels.devices import KERNEL_ON, UNTRIED_ON_GPU
from arborvox.model.kernels.dispatch import suits_kernel
from arborvox.model.transfer import to_device

PAGE = Path(__file__).parent.parent / "docs/scale.md"


def test_doctor_and_the_page_list_what_never_ran_on_a_gpu(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_findings([])
    told = " ".join(capsys.readouterr().out.split())
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert len(UNTRIED_ON_GPU) > 5
    for item in UNTRIED_ON_GPU:
        assert " ".join(item.split()) in told
        assert f"* {item}" in page


def test_kernels_are_chosen_by_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever changes it changes both the output layer and the network."""
    assert set(KERNEL_ON.values()) == set(dispatch.MODULES) == set(dispatch.KERNELS[2:])
    x = torch.zeros(2, dtype=torch.bfloat16)
    assert suits_kernel("depthwise", x)
    assert not suits_kernel("depthwise", x.to("meta"))
    monkeypatch.setitem(KERNEL_ON, "cpu", "none")
    assert not suits_kernel("depthwise", x)


def test_a_batch_goes_to_a_gpu_from_pinned_memory_and_elsewhere_as_it_is() -> None:
    x = torch.arange(3)
    assert to_device((x,), torch.device("cpu"))[0] is x

    class Recorded:
        is_cuda = False

        def __init__(self) -> None:
            self.calls: list[str] = []

        def pin_memory(self) -> "Recorded":
            self.calls.append("pin")
            return self

        def to(self, device: torch.device, non_blocking: bool = False) -> "Recorded":
            self.calls.append(f"{device.type} {non_blocking}")
            return self

    tensor: Any = Recorded()
    to_device((tensor,), torch.device("cuda", 1))
    assert tensor.calls == ["pin", "cuda True"]
    there: Any = SimpleNamespace(is_cuda=True, to=lambda device, non_blocking: "there")
    assert to_device((there,), torch.device("cuda")) == ("there",)
