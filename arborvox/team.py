"""The processes that torchrun started together: where they meet, and the queue they draw from.

There is no server of ours: torchrun keeps a store in which its processes find each other, and a
counter in it is the queue. Work is cut into numbered pieces before it is shared out, so the number
of processes decides who does a piece and never what the piece is. Whoever is lost takes nothing
along but its current piece: torchrun starts all again, and what is on disk is not done twice.
"""

import functools
import itertools
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.files import hold

# How long one answer of the store may take: a cut link costs time, not the work.
PATIENCE = timedelta(hours=2)
POLL_S = (0.01, 0.1)  # first and longest pause between two looks
TOKEN = "arborvox-attempt"


class Team:
    """This process and the others; of one process there is nothing to ask and nobody to wait for.

    All processes call the same methods in the same order: a call's number is its name.
    """

    def __init__(self, rank: int = 0, world: int = 1, store: Any = None) -> None:
        self.rank, self.world = rank, world
        self._store = store
        self._calls = itertools.count()

    @property
    def first(self) -> bool:
        """Whether this is the process that does what has to be done once."""
        return self.rank == 0

    def draw(self, num_pieces: int) -> Iterator[int]:
        """Yield the numbers of pieces of work, from 0 on, each to one process alone."""
        if self.world == 1:
            yield from range(num_pieces)
            return
        name = self._name()
        while (number := self._store.add(name, 1) - 1) < num_pieces:
            yield number

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.world > 1:
            name = self._name()
            self._store.add(name, 1)
            _poll(lambda: self._store.add(name, 0) >= self.world)

    def sum(self, number: int) -> int:
        """Add up a whole number over all processes; each gets the sum."""
        if self.world == 1:
            return number
        name = self._name()
        self._store.add(name, number)
        self.wait()
        return int(self._store.add(name, 0))

    def share(self, value: Callable[[], Any]) -> Any:
        """Let the first process find a plain value, and all have it."""
        if self.world == 1:
            return value()
        name = self._name()
        if self.first:
            found = value()
            self._store.set(name, json.dumps(found))
            return found
        _poll(lambda: self._store.check([name]))
        return json.loads(self._store.get(name))

    def hold(self, lock: Path, refusal: str) -> AbstractContextManager[None]:
        """Let the first process hold a lock for all."""
        return hold(lock, refusal) if self.first else nullcontext()

    def part_store(self) -> Any:
        """Return a part of the store that was never written to, the same for all processes."""
        return _part_of(self._store, self._name())

    def leave(self) -> None:
        """Go; the first process, which may keep the store, goes last."""
        if self.world > 1:
            name = self._name()
            self._store.add(name, 1)
            if self.first:
                _poll(lambda: self._store.add(name, 0) >= self.world)

    def _name(self) -> str:
        return f"call-{next(self._calls)}"


def team_size() -> int:
    """Return how many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def team_rank() -> int:
    """Return this process's number among them, from 0 on."""
    return int(os.environ.get("RANK", "0"))


def refuse_team(why: str) -> None:
    """Refuse to do with several processes what is one piece of work."""
    if team_size() > 1:
        raise ArborvoxError(f"This is not for torchrun: {why}.")


@functools.cache  # one place in one store, however often it is asked for
def this_team() -> Team:
    """Join the processes that torchrun started, if it did."""
    rank, world = team_rank(), team_size()
    if world == 1:
        return Team()
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://", timeout=PATIENCE))
    team = Team(rank, world, _part_of(store, _agree(store, rank, world)))
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts != "0" and team.first:
        say(f"torchrun lost a process and has started all {world} again (restart {restarts})")
    return team


@contextmanager
def join_team() -> Iterator[Team]:
    """Work with the others, and leave them when the work is done; an error leaves at once."""
    team = this_team()
    yield team
    team.leave()


def _part_of(store: Any, name: str) -> Any:
    """Return a part of a store, in which keys have a name before them."""
    from torch import distributed

    return distributed.PrefixStore(name, store)  # type: ignore[attr-defined]


def _agree(store: Any, rank: int, world: int) -> str:
    """Agree on a name for this attempt, in which no process of an earlier one takes part.

    torchrun may keep one store over its restarts, in which the dead have left their keys. The
    first process names the attempt and calls the roll; who is not on it is told by no old name.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        store.set(TOKEN, own)
        answers = [f"{own}/{other}" for other in range(1, world)]
        _poll(lambda: store.check(answers))
        store.set(f"{own}/roll", json.dumps([store.get(key).decode() for key in answers]))
        return own
    answered = ""

    def look() -> bool:
        nonlocal answered
        if not store.check([TOKEN]):
            return False
        token = store.get(TOKEN).decode()
        if token != answered:
            store.set(f"{token}/{rank}", own)
            answered = token
        roll = f"{token}/roll"
        return store.check([roll]) and own in json.loads(store.get(roll))

    _poll(look)
    return answered


def _poll(is_so: Callable[[], bool]) -> None:
    """Look again and again: so Ctrl-C is heard while waiting, and nobody's timeout counts."""
    pause_s, longest_s = POLL_S
    while not is_so():
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, longest_s)
