"""A round of learning: what was corrected in, a model that was compared with the last one out."""

from pathlib import Path

from arborvox.project.models import LearnedModel
from arborvox.project.project import Project


def learn(project: Project, *, also: Path | None = None) -> LearnedModel:
    """Train on from the model in use with what was corrected, and compare the two."""
    raise NotImplementedError
