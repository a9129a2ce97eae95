"""How Numba kernels are compiled here: cached on disk, free of the GIL, and safe for NaN."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

try:
    import numba
    from numba import types
    from numba.extending import intrinsic
except ModuleNotFoundError:  # `arborvox-runtime` does without: the same loops, not compiled
    numba = None

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered, so that they fill vector registers; NaN and infinity keep their meaning.
REORDERED_SUMS = frozenset({"reassoc", "contract", "nsz", "arcp"})
# For code whose order of operations is its meaning, such as rounding by a magic number.
EXACT_ORDER = frozenset({"contract"})

_kernels: list[Any] = []


def kernel(function: Kernel) -> Kernel:
    """Compile a loop over arrays on its first call in a type, and keep the code on disk."""
    return _compiled(function, REORDERED_SUMS)


def exact_kernel(function: Kernel) -> Kernel:
    """Compile as `kernel` does, but leave every operation in the order it is written."""
    return _compiled(function, EXACT_ORDER)


def _compiled(function: Kernel, fastmath: frozenset[str]) -> Kernel:
    if numba is None:
        return function
    compiled = numba.njit(
        cache=True, nogil=True, fastmath=set(fastmath), error_model="numpy", boundscheck=False
    )(function)
    _kernels.append(compiled)
    return cast(Kernel, compiled)


if numba is not None:

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def pointer_from_address(_: Any, address: Any) -> Any:
        """Turn an integer address into a pointer that `numba.carray` can wrap."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.voidptr(address), generate


class CompileNotice:
    """Tells the user once per process that kernels are being compiled, and how long it took."""

    def __init__(self) -> None:
        """Nothing has been said yet."""
        self.given = False

    def __enter__(self) -> None:
        """Say that compiling starts, if no compiled code lies on disk."""
        self.outermost, self.given = not self.given, True
        self.start_s = time.monotonic()
        if self.outermost and not _any_code_on_disk():
            _tell("Compiling kernels for this machine; this happens once.")

    def __exit__(self, *_: object) -> None:
        """Say where the compiled code was put, if any was made."""
        made = [compiled for compiled in _kernels if compiled.stats.cache_misses]
        if self.outermost and made:
            seconds = time.monotonic() - self.start_s
            _tell(
                f"Kernels ready after {seconds:.1f} s, kept in {made[0].stats.cache_path}.",
                in_passing=True,
            )


def _tell(message: str, *, in_passing: bool = False) -> None:
    """Print a message as the commands do, or plainly where the layer stands without them."""
    try:
        from arborvox.console import detail, say
    except ModuleNotFoundError:  # of Rich, which no kernel needs
        if not in_passing:
            print(message, file=sys.stderr)
        return
    (detail if in_passing else say)(message)


def _any_code_on_disk() -> bool:
    folders = {Path(compiled.stats.cache_path) for compiled in _kernels}
    return any(folder.is_dir() and any(folder.glob("*.nbi")) for folder in folders)
