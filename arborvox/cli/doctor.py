"""`arborvox doctor`: what this machine offers, and what follows."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("doctor")(doctor)


def doctor() -> None:
    """Tell what this machine offers and what that means for you."""
    from arborvox.doctor import examine, show_findings

    show_findings(examine())
