"""What the MP3 decoder writes to standard error by itself, caught and sorted."""

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator

# [src/libmpg123/layer3.c:INT123_do_layer3():1804] error: dequantization failed!
_ERROR = re.compile(rb"\[[^\n\]]*mpg123[^\n\]]*\] error: ([^\n]*)\n?")
# Note: Illegal Audio-MPEG-Header 0xff7b54c4 at offset 12333.
_NOTE = re.compile(rb"\[[^\n\]]*mpg123[^\n\]]*\] [^\n]*\n?|\b(?:Note|Warning|Error): [^\n]*\n?")
# Standard error is the whole process's: one decoder at a time may have it.
_LOCK = threading.Lock()


@contextlib.contextmanager
def catch_chatter(complaints: list[str]) -> Iterator[None]:
    """Keep the decoder's messages from standard error; its errors go to `complaints`.

    It has no switch for them, and they come past Python. What other threads write meanwhile is
    not lost: it is passed on at the end.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        try:
            caught = stack.enter_context(tempfile.TemporaryFile())
            kept = os.dup(2)
        except OSError:  # no room for a file, or no standard error: then there is no one to disturb
            yield
            return
        stack.callback(os.close, kept)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            caught.seek(0)
            text = caught.read()
            complaints += [words.decode(errors="replace") for words in _ERROR.findall(text)]
            if rest := _NOTE.sub(b"", text):
                os.write(2, rest)
