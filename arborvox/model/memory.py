"""Memory that a training step has freed stays with the process, ready for the next step."""

import ctypes
import platform

# Parameters of glibc's mallopt; see its manual page.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc not to hand memory back to the system; return whether there is a glibc to tell.

    By default the activations of a step (a gigabyte or more) go back to the system when they are
    freed, and every page of them costs a fault in the next step: about a tenth of a step's time.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, NEVER)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))
