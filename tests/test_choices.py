"""A choice is written once: sections, commands and the dicts of implementations follow from it."""

import ast
from importlib import import_module, util
from pathlib import Path
from typing import Any

import pytest

from arborvox.config import CORPUS_SECTIONS, MODEL_SIZES, choices
from arborvox.config.choices import values_of
from arborvox.corpora import PREPARERS

PACKAGE = Path(__file__).parent.parent / "arborvox"
# Each dict of implementations, where it may live, and the choice that its keys are.
DICTS = {
    "SEARCHES": (("arborvox.decode", "arborvox.decode.searches"), "Search"),
    "TREES": (("arborvox.tree", "arborvox.tokens.trees"), "TreeKind"),
    "ENCODERS": (("arborvox.model", "arborvox.model.encoders"), "EncoderKind"),
    "OUTPUTS": (("arborvox.model.outputs", "arborvox.model", "arborvox.model.asr"), "OutputKind"),
    "WRITERS": (("arborvox.decode.transcript",), "OutputFormat"),
    "SHARD_WRITERS": (("arborvox.shards.packing",), "ShardFormat"),
    "ENDINGS": (("arborvox.align",), "AlignmentFormat"),
    "VOICE_ACTIVITIES": (("arborvox.decode.voice_activity",), "VoiceActivity"),
    "ANSWERS": (("arborvox.serve.answers",), "ResponseFormat"),
    "PROPOSALS": (("arborvox.project.proposals",), "Proposal"),
}  # fmt: skip


def _find_dict(name: str, modules: tuple[str, ...]) -> dict[str, Any] | None:
    for module in modules:
        if util.find_spec(module) is not None:
            found: dict[str, Any] | None = getattr(import_module(module), name, None)
            if found is not None:
                return found
    return None


@pytest.mark.parametrize("name", DICTS)
def test_a_dicts_keys_are_the_values_of_its_choice(name: str) -> None:
    modules, choice = DICTS[name]
    found = _find_dict(name, modules)
    if found is None:
        pytest.skip(f"no {name} in {', '.join(modules)}")
    assert tuple(found) == values_of(getattr(choices, choice))


def test_each_kind_of_corpus_has_a_section_and_a_preparer() -> None:
    assert tuple(CORPUS_SECTIONS) == tuple(PREPARERS) == values_of(choices.CorpusKind)
    for kind, section in CORPUS_SECTIONS.items():
        assert section().kind == kind  # type: ignore[call-arg]


def test_each_size_of_model_has_its_numbers() -> None:
    assert tuple(MODEL_SIZES) == values_of(choices.ModelSize)


def test_nobody_writes_a_choice_a_second_time() -> None:
    """No tuple, list, Literal or class of constants elsewhere repeats the values of a choice."""
    known = {
        frozenset(values_of(choice)): name
        for name, choice in vars(choices).items()
        if len(values_of(choice)) > 2
    }
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "config/choices.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                parts = node.elts
            elif isinstance(node, ast.ClassDef):
                parts = [part.value for part in node.body if isinstance(part, ast.Assign)]
            else:
                continue
            words = frozenset(part.value for part in parts if isinstance(part, ast.Constant))
            assert words not in known, f"{path}, line {node.lineno} repeats {known[words]}"
