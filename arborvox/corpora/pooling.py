"""Work that is done for many parts of a corpus, in as many processes as there are cores."""

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
) -> list[Result]:
    """Run a task for each part, in processes where that pays, with a progress bar; order kept."""
    results = []
    with progress(f"{verb} {len(tasks)} {what}", len(tasks)) as advance:
        if processes == 1 or len(tasks) < 2:
            for result in starmap(work, tasks):
                results.append(result)
                advance()
            return results
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for future in [pool.submit(work, *task) for task in tasks]:
                results.append(future.result())
                advance()
    return results
