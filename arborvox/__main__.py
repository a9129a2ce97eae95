"""`python -m arborvox` is the command line too; torchrun starts it this way."""

from arborvox.cli import main

if __name__ == "__main__":
    main()
