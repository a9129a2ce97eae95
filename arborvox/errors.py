"""The one exception that users see: a sentence that says what is wrong and what to do."""

import re

# Controls move a terminal's cursor or change its title; halves of characters cannot be written.
_NO_SIGNS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class ArborvoxError(Exception):
    """A mistake in the input or the set-up, told in one sentence; the command line exits with 2."""

    def __init__(self, message: str) -> None:
        """Keep the sentence in one line, and harmless whatever a stranger's file put into it."""
        super().__init__(harmless(" ".join(message.splitlines())))


def harmless(text: str) -> str:
    """Return a text that a terminal shows and does not obey."""
    return _NO_SIGNS.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, most: int = 200) -> str:
    """Return a stranger's text as part of a sentence: in one line, cut short, nothing invisible."""
    line = " ".join(text.split())
    shown = line if len(line) <= most else f"{line[:most]}…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
