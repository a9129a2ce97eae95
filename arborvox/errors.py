"""The one exception that users see: a sentence that says what is wrong and what to do."""


class ArborvoxError(Exception):
    """A mistake in the input or the set-up, told in one sentence; the command line exits with 2."""
