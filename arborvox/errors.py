"""The one exception that users see: a sentence that says what is wrong and what to do."""


class ArborvoxError(Exception):
    """A mistake in the input or the set-up, told in one sentence; the command line exits with 2."""


def one_line(text: str, most: int = 200) -> str:
    """Return a stranger's text as part of a sentence: in one line, cut short, nothing invisible."""
    line = " ".join(text.split())
    shown = line if len(line) <= most else f"{line[:most]}…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
