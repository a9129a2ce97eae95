"""What the model in use hears in utterances that nobody has corrected yet."""

from collections.abc import Callable
from pathlib import Path

from arborvox.config import DecodeConfig
from arborvox.console import progress
from arborvox.errors import ArborvoxError
from arborvox.project.items import Item
from arborvox.project.project import Project
from arborvox.recognizer import Recognizer, UnusableRecordingError, load

AT_ONCE = 16  # drafts that are written down together


def draft_items(project: Project, config: DecodeConfig | None = None) -> int:
    """Write drafts with the model in use for all open utterances that have none of it yet."""
    name = project.models.current
    items = project.undrafted()
    if not items:
        return 0
    return write_drafts(project, name, load(model_path(project, name), config), items)


def write_drafts(
    project: Project,
    name: str,
    recognizer: Recognizer,
    items: list[Item],
    tell: Callable[[int], None] = lambda done: None,
) -> int:
    """Let a model hear utterances; return how many could be heard."""
    num_heard = 0
    with progress("drafting", len(items)) as advance:
        for first in range(0, len(items), AT_ONCE):
            drafts = []
            for item in items[first : first + AT_ONCE]:
                try:
                    heard = recognizer.transcribe(project.folder / item.audio)
                except UnusableRecordingError:
                    continue  # its recording was withdrawn in between, or its file is damaged
                confidences = [segment.confidence for segment in heard.segments]
                mean = sum(confidences) / len(confidences) if confidences else 0.0
                drafts.append((item.id, heard.text, mean))
            project.draft(name, drafts)
            num_heard += len(drafts)
            advance(len(items[first : first + AT_ONCE]))
            tell(min(first + AT_ONCE, len(items)))
    return num_heard


def model_path(project: Project, name: str) -> Path:
    """Return a model's folder, or say that there is none yet."""
    path = project.models.path(name)
    if path is None:
        raise ArborvoxError(
            f"{project.folder} has no model yet: give one with `arborvox serve RUN --project "
            f"{project.folder}`, or `arborvox project add … --model RUN`."
        )
    return path
