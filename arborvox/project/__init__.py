"""Projects: recordings that people correct, and models that learn from what was corrected.

    project = Project.open(folder)
    item = project.next_item("ana")                  # the utterance to correct next
    project.save(item.id, "what is said", revision=item.revision, author="ana")
    start_learning(folder); read_status(folder)      # a round of learning, and how it goes
    project.models.offer(); project.models.accept("001"); project.models.go_back()
    withdraw(project, speaker="ana")                 # hers, and everything made from it
    draft_items(project)                             # the model in use hears what is not yet heard

Nothing here knows of a server. Every method may be called from any thread; several processes may
have the same project open. What goes wrong is an ArborvoxError with one sentence for the user;
Conflict (with `.item`, what stands there now) and UnknownItem are two of its kinds, and a full disk
is an OSError that names the file.
"""

from arborvox.project.drafting import draft_items
from arborvox.project.items import Change, Conflict, Item, ProjectRecording, Summary
from arborvox.project.models import LearnedModel, Models
from arborvox.project.progress import (
    LearningStatus,
    is_learning,
    read_status,
    start_learning,
    stop_learning,
)
from arborvox.project.project import Project, UnknownItem, is_project
from arborvox.project.withdrawal import Withdrawal, withdraw

__all__ = [
    "Change",
    "Conflict",
    "Item",
    "LearnedModel",
    "LearningStatus",
    "Models",
    "Project",
    "ProjectRecording",
    "Summary",
    "UnknownItem",
    "Withdrawal",
    "draft_items",
    "is_learning",
    "is_project",
    "read_status",
    "start_learning",
    "stop_learning",
    "withdraw",
]
