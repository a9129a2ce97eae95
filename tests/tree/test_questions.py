"""Laws of trees of questions: few questions, short codes, a place for what was never heard."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from arborvox.errors import ArborvoxError
from arborvox.tree import CodeTree, load_tree, save_tree
from arborvox.tree.articulation import Articulation, ask
from arborvox.tree.description import describe
from arborvox.tree.measures import entropy_bits, expected_code_length
from arborvox.tree.questions import question_tree

SPECIAL = ("<eos>", "<unk>")
PHONES = (
    *"aeiouəɛɔpbtdkɡmnŋszʃfvxrlj", "aː", "iː", "uː", "ã", "ĩ", "tʰ", "kʰ", "pʰ", "t͡ʃ", "d͡ʒ", "kʷ",
    "n̪", "d̪", "t̪", "a̠",
)  # fmt: skip
UNITS = (*SPECIAL, *PHONES)
COUNTS = [400, 0, *(max(1, 900 // (place + 1)) for place in range(len(PHONES)))]
UNHEARD = ("y", "ũ", "bʰ", "qʷ", "o̤", "ǃ")


@pytest.fixture(scope="module")
def tree() -> CodeTree:
    return question_tree(COUNTS, UNITS, SPECIAL).tree


@pytest.fixture(scope="module")
def wider() -> CodeTree:
    """The same counts, and six sounds that were never counted."""
    return question_tree([*COUNTS, *[0] * 6], (*UNITS, *UNHEARD), SPECIAL).tree


def path_of(tree: CodeTree, unit: str) -> list[tuple[str | None, bool]]:
    """Return what is asked on the way to a unit, and the answers."""
    assert tree.units is not None
    assert tree.questions is not None
    offsets, nodes, signs = tree.paths()
    token = tree.units.index(unit)
    path = slice(offsets[token], offsets[token + 1])
    return [
        (tree.questions[node], sign > 0)
        for node, sign in zip(nodes[path], signs[path], strict=True)
    ]


def test_every_unit_has_a_leaf_and_masses_are_its_counts(tree: CodeTree) -> None:
    assert tree.units == UNITS
    assert tree.kind == "questions"
    np.testing.assert_allclose(tree.probabilities, np.array(COUNTS) / sum(COUNTS))


def test_left_is_yes_for_every_unit_and_question(wider: CodeTree) -> None:
    articulation = Articulation()
    sounds = (*PHONES, *UNHEARD)
    relatives = [articulation.nearest_relative(unit) for unit in sounds]
    answers = ask(articulation, sounds, relatives)
    for row, unit in enumerate(sounds):
        for question, answer in path_of(wider, unit):
            assert question is None or answers[question][row] == answer


def test_questions_are_asked_again_and_codes_stay_near_the_entropy(tree: CodeTree) -> None:
    assert tree.questions is not None
    asked = Counter(question for question in tree.questions if question)
    assert len(asked) < 0.7 * asked.total()
    assert expected_code_length(tree) < entropy_bits(tree.probabilities) + 1.2


def test_units_without_a_count_change_no_other_ones_questions_but_at_the_end(
    tree: CodeTree, wider: CodeTree
) -> None:
    for unit in PHONES:
        before, now = path_of(tree, unit), path_of(wider, unit)
        assert now[: len(before)] == before
    on_left, on_right = wider.heard_below()
    assert not (wider.probabilities[-6:]).any()
    assert (on_left != on_right).sum() >= 2


def test_what_leads_to_an_unheard_unit_was_learned_elsewhere(wider: CodeTree) -> None:
    assert wider.questions is not None
    both = np.logical_and(*wider.heard_below())
    learned = {q for q, heard in zip(wider.questions, both, strict=True) if heard}
    for unit in UNHEARD:
        assert {question for question, _ in path_of(wider, unit)} <= learned | {None}


def test_the_order_of_units_does_not_matter_to_what_is_asked(tree: CodeTree) -> None:
    order = np.random.default_rng(0).permutation(len(PHONES)) + 2
    units = (*SPECIAL, *(UNITS[place] for place in order))
    counts = [*COUNTS[:2], *(COUNTS[place] for place in order)]
    other = question_tree(counts, units, SPECIAL).tree
    assert Counter(other.questions) == Counter(tree.questions)


def test_sounds_that_nothing_tells_apart_are_joined_without_a_question() -> None:
    units = (*SPECIAL, "a", "t", "ħ", "☃", "☂")  # the last two are no sounds
    tree = question_tree([9, 0, 5, 4, 3, 2, 1], units, SPECIAL).tree
    assert [question for question, _ in path_of(tree, "☃")] == [None] * len(path_of(tree, "☃"))


def test_units_that_are_no_sounds_are_refused() -> None:
    with pytest.raises(ArborvoxError, match="needs IPA units"):
        question_tree([3, 2, 1], ["1", "2", "3"])


def test_questions_are_stored_and_trees_without_them_keep_version_1(
    tree: CodeTree, tmp_path: Path
) -> None:
    save_tree(tree, tmp_path / "questions.json")
    assert load_tree(tmp_path / "questions.json", UNITS) == tree
    assert '"version": 2' in (tmp_path / "questions.json").read_text(encoding="utf-8")
    plain = CodeTree(tree.left, tree.right, tree.probabilities, tree.units)
    assert plain != tree
    save_tree(plain, tmp_path / "plain.json")
    assert '"version": 1' in (tmp_path / "plain.json").read_text(encoding="utf-8")
    assert load_tree(tmp_path / "plain.json", UNITS).questions is None


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (("a",), "1 inner nodes|2 inner nodes but 1"),
        (("a", "b\nc"), "one line"),
        (("a", "x" * 65), "1 to 64"),
        (("a", ""), "1 to 64"),
    ],
)
def test_questions_that_are_none_are_refused(questions: tuple[str, ...], message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        CodeTree([-1, -2], [1, -3], [0.5, 0.3, 0.2], None, "questions", questions)


@pytest.mark.parametrize("node", ["[-1, 1, 7]", "[-1, 1]", '[-1, 1, "q", "r"]', '[-1, 1, ["q"]]'])
def test_damaged_questions_are_refused_by_name(tmp_path: Path, node: str) -> None:
    path = tmp_path / "tree.json"
    path.write_text(
        '{"format": "arborvox-tree", "version": 2, "kind": "questions", "leaves": '
        f'[[null, 0.5], [null, 0.3], [null, 0.2]], "nodes": [{node}, [-2, -3, null]]}}'
    )
    with pytest.raises(ArborvoxError, match=r'tree\.json.*"nodes"'):
        load_tree(path)


def test_a_new_leaf_beside_the_root_asks_nothing(tree: CodeTree) -> None:
    assert tree.questions is not None
    assert tree.with_leaf(0.5).questions == (None, *tree.questions)


@pytest.mark.parametrize(
    ("units", "told"),
    [
        ("ptk", "voiceless stop, place unsure"),
        ("pb", "labial stop, voicing unsure"),
        (("t͡ʃ", "t͡s"), "voiceless affricate, place unsure"),
        (("t", "tʰ"), "voiceless alveolar stop, fine detail unsure"),
        ("tds", "alveolar obstruent, voicing and manner unsure"),
        ("ie", "front unrounded vowel, height unsure"),
        (("a", "aː"), "open front unrounded vowel, length unsure"),
        ("ap", "sound unsure"),
        ("a", "open front unrounded vowel"),
        (("k͡p",), "voiceless velar-labial stop"),
    ],
)
def test_a_group_of_sounds_is_told_by_what_it_has_in_common(units: str, told: str) -> None:
    assert describe(Articulation(), tuple(units)) == told
