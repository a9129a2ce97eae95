"""This process among others: its name in files that it may leave behind, and its cores."""

import os
import platform
import re
import sys
import zlib

# Windows: what to ask a process for, and the answers.
_QUERY_LIMITED_INFORMATION = 0x1000
_INVALID_PARAMETER = 87  # there is no such process
_STILL_ACTIVE = 259


def process_mark() -> str:
    """Return a text for names of scratch files: the machine, and this process on it."""
    return f"{_machine()}-{os.getpid()}"


def is_deserted(name: str) -> bool:
    """Whether a name carries the mark of a process of this machine that is no more."""
    # .curves.png.1a2b3c4d-4711-x8f2k1_a.part
    marked = re.search(r"[.-]([0-9a-f]{8})-(\d{1,10})-\w{8}(\.part)?$", name)
    return marked is not None and marked[1] == _machine() and not _is_alive(int(marked[2]))


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _machine() -> str:
    """Tell machines apart that share a file system, where ids of processes mean nothing."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # where signal 0 would end the process
        import ctypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel.OpenProcess(_QUERY_LIMITED_INFORMATION, False, process)
        if not handle:
            return ctypes.get_last_error() != _INVALID_PARAMETER
        code = ctypes.c_ulong()
        kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return code.value == _STILL_ACTIVE
    try:
        os.kill(process, 0)  # asks whether the process is there
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
