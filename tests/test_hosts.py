"""Two hosts, as network namespaces with addresses of their own that a virtual link joins."""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from team_work import Speech, all_commands, make_speech, results_of
from tiny_corpus import command_arguments, make_corpus, make_recipe, run_process, step_losses

# As test_train_ranks.py says: sums over processes are added in another order.
TOLERANCE = 1e-4
CUT_S = 30
WIRE = "wire"
# torchrun takes a host for lost that is silent for longer; 5 s are between two signs of life.
PATIENCE = "keep_alive_max_attempt=24"


@dataclass(frozen=True)
class Hosts:
    """Two namespaces and the link between them."""

    names: tuple[str, str]
    addresses = ("10.213.77.1", "10.213.77.2")

    def start(self, arguments: Sequence[str], log: Path, **environment: str) -> list[int]:
        """Run a command by torchrun on both hosts, a process each; return their exit codes."""
        return self.wait(self.launch(arguments, log, **environment))

    def launch(
        self, arguments: Sequence[str], log: Path, **environment: str
    ) -> list["subprocess.Popen[bytes]"]:
        threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "COLUMNS": "500"}
        number = uuid.uuid4().hex[:8]
        running = []
        for place, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"]
            command += ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=2"]
            command += ["--rdzv-backend=c10d", f"--rdzv-id={number}"]
            command += [f"--rdzv-endpoint={self.addresses[0]}:29511", f"--local-addr={address}"]
            command += [f"--rdzv-conf=is_host={1 - place},{PATIENCE}", *arguments]
            with log.with_suffix(f".{place}").open("wb") as file:
                running.append(
                    subprocess.Popen(
                        command,
                        env={**os.environ, **threads, "GLOO_SOCKET_IFNAME": WIRE, **environment},
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        return running

    def wait(self, running: Sequence["subprocess.Popen[bytes]"]) -> list[int]:
        try:
            return [process.wait(timeout=400) for process in running]
        finally:
            for process in running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def link(self, state: str) -> None:
        """Cut the link of the second host (down), or mend it (up)."""
        _ip("-n", self.names[1], "link", "set", WIRE, state)

    def told(self, log: Path) -> str:
        return "".join(
            log.with_suffix(f".{place}").read_text(encoding="utf-8", errors="replace")
            for place in range(2)
        )


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Make the hosts; skip where this machine or its user cannot."""
    if shutil.which("ip") is None:
        pytest.skip("two hosts need `ip`, of Debian's iproute2")
    mark = uuid.uuid4().hex[:6]
    made = Hosts((f"arborvox-{mark}-a", f"arborvox-{mark}-b"))
    try:
        for name in made.names:
            _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no right to make network namespaces: {error.stderr.strip()}")
    try:
        first, second = made.names
        ends = ("name", WIRE, "netns", first, "type", "veth", "peer", "name", WIRE, "netns", second)
        _ip("link", "add", *ends)
        for name, address in zip(made.names, made.addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", WIRE)
            _ip("-n", name, "link", "set", WIRE, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in made.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Speech:
    return make_speech(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def alone(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("alone")
    ended = run_process(all_commands(speech, out))
    assert ended.returncode == 0, ended.stderr
    return results_of(out)


@pytest.mark.slow
def test_two_hosts_write_the_bytes_of_one_process(
    hosts: Hosts, speech: Speech, alone: dict[str, bytes], tmp_path: Path
) -> None:
    """Also when a process of the second host is killed while it decodes."""
    traps = {"KILL_AT": "decode:1", "KILL_RANK": "1", "KILL_ONCE": str(tmp_path / "died")}
    out = tmp_path / "out"
    out.mkdir()
    codes = hosts.start(all_commands(speech, out), tmp_path / "log", **traps)
    assert codes == [0, 0], hosts.told(tmp_path / "log")
    assert (tmp_path / "died").exists()
    assert results_of(out) == alone


@pytest.mark.slow
def test_a_link_that_is_cut_for_half_a_minute_costs_time_alone(
    hosts: Hosts, speech: Speech, alone: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    log = tmp_path / "log"
    # The second host stops after its first batch until the link is cut.
    running = hosts.launch(all_commands(speech, out), log, CUT_AT=str(tmp_path / "reached"))
    _cut_for_a_while(hosts, tmp_path / "reached", running)
    assert hosts.wait(running) == [0, 0], hosts.told(log)
    assert results_of(out) == alone


@pytest.mark.slow
def test_training_on_two_hosts_follows_the_loss_curve_of_one_through_a_cut_link(
    hosts: Hosts, tmp_path: Path
) -> None:
    corpus = make_corpus(tmp_path / "corpus")
    recipe = make_recipe(model={"dropout": 0.0}, train={"max_steps": 8, "save_every": 4})
    arguments = command_arguments(recipe, corpus, tmp_path / "one")
    ended = run_process(arguments)
    assert ended.returncode == 0, ended.stderr
    arguments = command_arguments(recipe, corpus, tmp_path / "two")
    log = tmp_path / "log"
    running = hosts.launch(arguments, log, CUT_AT=str(tmp_path / "reached"))
    _cut_for_a_while(hosts, tmp_path / "reached", running)
    assert hosts.wait(running) == [0, 0], hosts.told(log)
    one, two = step_losses(tmp_path / "one"), step_losses(tmp_path / "two")
    assert len(one) == len(two) == 8
    for first, second in zip(one, two, strict=True):
        assert first is not None
        assert second is not None
        assert math.isclose(first, second, rel_tol=TOLERANCE)


def _cut_for_a_while(
    hosts: Hosts, reached: Path, running: Sequence["subprocess.Popen[bytes]"]
) -> None:
    """Wait until the second host is at work, cut its link, and mend it after half a minute."""
    while not reached.exists():
        assert all(process.poll() is None for process in running), "ended before the cut"
        time.sleep(0.1)
    hosts.link("down")
    reached.with_suffix(".cut").touch()
    time.sleep(CUT_S)
    hosts.link("up")
