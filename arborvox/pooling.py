"""Work that is done for many parts, in as many processes as there are cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import starmap
from multiprocessing import get_context
from typing import Any, TypeVar

from arborvox.console import progress

Result = TypeVar("Result")


def run_many(
    verb: str,
    what: str,
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    processes: int,
    sizes: Sequence[int] | None = None,
) -> list[Result]:
    """Run a task for each part, in processes where that pays, with a progress bar; order kept.

    The largest begin first, where sizes are known: whoever waits then waits for a small one.
    """
    results = []
    with progress(f"{verb} {len(tasks)} {what}", len(tasks)) as advance:
        if processes == 1 or len(tasks) < 2:
            for result in starmap(work, tasks):
                results.append(result)
                advance()
            return results
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            begun = sorted(range(len(tasks)), key=lambda n: -sizes[n] if sizes else n)
            futures = {n: pool.submit(work, *tasks[n]) for n in begun}
            for number in range(len(tasks)):
                results.append(futures[number].result())
                advance()
    return results
