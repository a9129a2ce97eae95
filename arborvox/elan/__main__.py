"""`python -m arborvox.elan FOLDER`: how the extension's scripts start; ELAN is at both ends."""

import sys
from pathlib import Path

from arborvox.elan.session import answer_elan

if __name__ == "__main__":
    sys.exit(answer_elan(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer))
