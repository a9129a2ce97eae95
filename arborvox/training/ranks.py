"""One process or many: what `torchrun` says, and the few things ranks tell each other."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from arborvox.errors import ArborvoxError
from arborvox.team import PATIENCE, this_team


@dataclass(frozen=True)
class Ranks:
    """This process's place among those that train together."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Say whether this process is the one that writes files and talks."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until every rank is here."""
        if self.world > 1:
            dist.barrier()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Add up numbers over all ranks; each gets the same sums."""
        if self.world == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(value) for value in total.tolist()]

    def wrap(self, model: nn.Module) -> nn.Module:
        """Make a model's gradients the mean over ranks."""
        if self.world == 1:
            return model
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(
            model, device_ids=ids, forward_sync_buffers=False, gradient_as_bucket_view=True
        )


def exchange_gradients(network: nn.Module, *, now: bool) -> AbstractContextManager[None]:
    """Let the backward pass inside the block exchange gradients with other ranks, or not yet."""
    if isinstance(network, DistributedDataParallel) and not now:
        return network.no_sync()
    return nullcontext()


@contextmanager
def join_ranks() -> Iterator[Ranks]:
    """Join the processes that torchrun started, if it did; leave them at the end."""
    team = this_team()
    rank, world = team.rank, team.world
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    if world == 1:
        yield Ranks(rank=0, world=1, device=device)
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, store=team.part_store(), rank=rank, world_size=world, timeout=PATIENCE
    )
    try:
        yield Ranks(rank=rank, world=world, device=device)
    except RuntimeError as error:
        if backend not in str(error).lower():
            raise
        raise ArborvoxError(
            f"Process {rank} lost contact with the others ({str(error).splitlines()[0]}); "
            "started again, the run goes on from what it saved last."
        ) from error
    finally:
        dist.destroy_process_group()
