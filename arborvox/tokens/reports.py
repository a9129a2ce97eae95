"""What the commands about tokens and trees do, and what they print on standard output."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arborvox.config.choices import TreeKind
from arborvox.console import say, warn
from arborvox.inventory_files import read_inventories
from arborvox.tokens.building import build_tokenizer, count_tokens
from arborvox.tokens.closeness import draw_closeness, language_closeness
from arborvox.tokens.corpus import TextCorpus
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tokens.trees import build_tree, color_units, languages_of_units
from arborvox.tree import CodeTree, load_tree, save_tree
from arborvox.tree.drawing import display_name, draw_tree
from arborvox.tree.measures import (
    compare_trees,
    entropy_bits,
    expected_code_length,
    explain_meeting,
)
from arborvox.vocabulary import EOS_ID, UNK_ID

TOKENS_NAME = "tokens.json"
MOST_MOVED = 10
UNITS_SHOWN_A_SIDE = 12
UNITS_SHOWN_A_GATE = 6


def make_tokens(
    sources: Sequence[Path],
    out: Path,
    unit: str,
    *,
    languages: Sequence[str] | None,
    vocab_size: int,
    graphemes: bool,
    byte_fallback: bool,
    language_tags: bool,
    more: Sequence[Path] = (),
) -> Tokenizer:
    """Build a vocabulary, save it, and print what it holds."""
    corpus = TextCorpus(sources, languages)
    tokenizer = build_tokenizer(
        corpus, unit, vocab_size=vocab_size, graphemes=graphemes,
        byte_fallback=byte_fallback, language_tags=language_tags, more=read_inventories(more),
    )  # fmt: skip
    report_skipped(corpus)
    _print_counts(tokenizer, tokenizer.counts)
    tokenizer.save(out)
    say(f"{len(tokenizer)} tokens, {tokenizer.num_special} of them special")
    say(f"wrote {out}")
    return tokenizer


def show_closeness(tokens: Path, out: Path) -> None:
    """Draw the heat map of the languages and print the nearest neighbor of each."""
    tokenizer = Tokenizer.load(tokens)
    closeness = language_closeness(tokenizer)
    draw_closeness(closeness, out)
    others = closeness.similarity - 2 * np.eye(len(closeness.languages))  # nobody is its own
    rows = []
    for row, language in enumerate(closeness.languages):
        nearest = int(others[row].argmax())
        if nearest != row:
            likeness = f"{100 * closeness.similarity[row, nearest]:.1f}"
            rows.append((language, closeness.languages[nearest], likeness))
    _print_table(("language", "nearest", "likeness"), rows, right=(2,))
    _report_unknown(tokenizer, tokenizer.counts)
    say(f"wrote {out}")


def make_tree(
    tokens: Path,
    out: Path,
    kind: TreeKind,
    *,
    manifests: Sequence[Path],
    weighting: str,
    seed: int,
    embedding_from: Path | None,
) -> CodeTree:
    """Build a tree over a vocabulary, save it, and print its size."""
    tokenizer = Tokenizer.load(tokens)
    counts = tokenizer.counts
    if manifests:
        corpus = TextCorpus(manifests)
        counts = count_tokens(tokenizer, corpus)
        report_skipped(corpus)
    tree = build_tree(
        tokenizer, kind, weighting=weighting, seed=seed, embedding_from=embedding_from,
        counts=counts,
    )  # fmt: skip
    save_tree(tree, out)
    _print_summary(tree)
    _report_unknown(tokenizer, counts)
    say(f"wrote {out}")
    return tree


def show_tree(path: Path, tokens: Path | None, sort: str) -> None:
    """Print a tree's numbers and all its codes."""
    tokenizer = _tokenizer_beside(path, tokens)
    tree = load_tree(path, tokenizer.units if tokenizer else None)
    _print_summary(tree)
    codes, depths = tree.codes(), tree.depths()
    orders = {
        "id": lambda token: token,
        "mass": lambda token: (-tree.probabilities[token], token),
        "code": lambda token: codes[token],
    }
    used = languages_of_units(tokenizer) if tokenizer else None
    rows = []
    for token in sorted(range(tree.num_leaves), key=orders[sort]):
        name = display_name(tree.units[token]) if tree.units else ""
        share = f"{100 * tree.probabilities[token]:.4f}"
        row = (str(token), name, share, str(depths[token]), codes[token])
        rows.append((*row, " ".join(used[token])) if used else row)
    header = ("id", "unit", "%", "bits", "code", *(("languages",) if used else ()))
    _print_table(header, rows, right=(0, 2, 3))
    if tree.questions is not None:
        _print_questions(tree)
    if tokenizer:
        _report_unknown(tokenizer, tokenizer.counts)


def picture_tree(path: Path, picture: Path, tokens: Path | None, color: str, title: str) -> None:
    """Draw a tree; without its tokens nothing is known that could color it but the script."""
    tokenizer = _tokenizer_beside(path, tokens)
    if tokenizer is None:
        tree = load_tree(path)
        warn(f"there is no {TOKENS_NAME} beside {path} and no --tokens: colored by script")
        tokenizer, color = Tokenizer("char", tree.units or (), {}), "script"
    tree = load_tree(path, tokenizer.units)
    draw_tree(tree, picture, color_units(tokenizer, color), title)
    say(f"wrote {picture}")


def show_comparison(first: Path, second: Path) -> None:
    """Print how two trees over the same units differ."""
    trees = (load_tree(first), load_tree(second))
    result = compare_trees(*trees)
    rows = [
        ("kind", trees[0].kind, trees[1].kind),
        ("longest code", str(trees[0].depth), str(trees[1].depth)),
        ("expected code length", *(f"{length:.4f}" for length in result.lengths)),
        ("entropy", *(f"{entropy_bits(tree.probabilities):.4f}" for tree in trees)),
        ("sibling units", *map(str, result.num_siblings)),
    ]
    _print_table(("", str(first), str(second)), rows, right=(1, 2))
    num_units = len(result.units)
    print(f"\nsame code: {result.same_codes} of {num_units} units")
    print(f"same group of units below a node: {result.shared_groups} of {result.num_groups} nodes")
    print(f"same pair of siblings: {result.shared_siblings}")
    change = np.abs(result.depths[1] - result.depths[0])
    print(f"change in depth: {change.mean():.2f} bits on average, {change.max()} at most")
    moved = [f"{display_name(unit)} {bits:+d}" for unit, bits in result.moved[:MOST_MOVED]]
    if moved:
        print(f"moved most: {', '.join(moved)}")


def show_meeting(path: Path, unit: str, other: str) -> None:
    """Print why two units stand where they stand: what they share, and where they part."""
    tree = load_tree(path)
    meeting = explain_meeting(tree, unit, other)
    for name, code, mass in zip(meeting.units, meeting.codes, meeting.masses, strict=True):
        print(f"{display_name(name)}: code {code}, {100 * mass:.4f} % of the mass")
    where = f"after {meeting.prefix}" if meeting.prefix else "at the root"
    print(
        f"They part {where}: {len(meeting.prefix)} decisions are shared. The node there holds "
        f"{meeting.node_leaves} units and {100 * meeting.node_mass:.4f} % of the mass; counted "
        f"from the lightest, it is merge {meeting.merge} of {tree.num_inner}."
    )
    for name, side in zip(meeting.units, meeting.sides, strict=True):
        shown = " ".join(map(display_name, side[:UNITS_SHOWN_A_SIDE]))
        more = (
            f" and {len(side) - UNITS_SHOWN_A_SIDE} more" if len(side) > UNITS_SHOWN_A_SIDE else ""
        )
        print(f"on the side of {display_name(name)}: {shown}{more}")
    if meeting.are_siblings and tree.kind == "huffman":
        print(
            "They are siblings: when they were merged, these two were the lightest nodes left, "
            "so their masses are as near as the order of merging allows."
        )
    elif meeting.are_siblings:
        print(f"They are siblings: the {tree.kind} rule puts no other unit between them.")


def report_skipped(corpus: TextCorpus) -> None:
    """Say how many sentences of text files were left out, and why."""
    for (language, problem), count in sorted(corpus.skipped.items()):
        warn(f"{language}: {count} sentences left out ({problem})")


def _tokenizer_beside(tree: Path, tokens: Path | None) -> Tokenizer | None:
    """Load the named tokens, or those in the tree's folder, or none."""
    beside = tree.parent / TOKENS_NAME
    if tokens is None and not beside.is_file():
        return None
    return Tokenizer.load(tokens or beside)


def _print_summary(tree: CodeTree) -> None:
    entropy, length = entropy_bits(tree.probabilities), expected_code_length(tree)
    print(
        f"{tree.kind} tree: {tree.num_leaves} units, longest code {tree.depth} bits; expected code "
        f"length {length:.4f} bits, entropy {entropy:.4f} (+{length - entropy:.4f})"
    )


def _print_questions(tree: CodeTree) -> None:
    """Print what each gate asks, with its place, its mass and the units on its two sides."""
    assert tree.questions is not None
    masses = np.add(*tree.sums_below(tree.probabilities))
    asked = Counter(question for question in tree.questions if question is not None)
    print(f"\n{len(asked)} questions for {asked.total()} of {tree.num_inner} gates; yes is 0, left")
    names = [display_name(unit) for unit in tree.units or ()] or [""] * tree.num_leaves
    prefixes, sides = _gate_codes(tree)
    rows = [
        (
            str(gate),
            prefixes[gate],
            question or "–",
            f"{100 * masses[gate]:.4f}",
            *(_some_units([names[token] for token in side]) for side in sides[gate]),
        )
        for gate, question in enumerate(tree.questions)
    ]
    _print_table(("gate", "after", "question", "%", "yes", "no"), rows, right=(0, 3))


def _gate_codes(tree: CodeTree) -> tuple[list[str], list[tuple[list[int], list[int]]]]:
    """Return the code that leads to each gate, and the tokens on its two sides, heaviest first."""
    prefixes = [""] * tree.num_inner
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in range(tree.num_inner)]
    offsets, nodes, signs = tree.paths()
    codes = tree.codes()
    for token in np.argsort(-tree.probabilities, kind="stable").tolist():
        path = slice(offsets[token], offsets[token + 1])
        for depth, (gate, sign) in enumerate(zip(nodes[path], signs[path], strict=True)):
            prefixes[gate] = codes[token][:depth]
            sides[gate][int(sign < 0)].append(token)
    return prefixes, sides


def _some_units(names: Sequence[str]) -> str:
    more = f" +{len(names) - UNITS_SHOWN_A_GATE}" if len(names) > UNITS_SHOWN_A_GATE else ""
    return " ".join(names[:UNITS_SHOWN_A_GATE]) + more


def _print_counts(tokenizer: Tokenizer, counts: Mapping[str, Sequence[int]]) -> None:
    """Print utterances, tokens, distinct units and unknown ones, by language."""
    first = tokenizer.num_special
    rows = []
    for language, row in sorted(counts.items()):
        distinct = sum(count > 0 for count in row[first:])
        shown = (row[EOS_ID], sum(row[first:]) + row[UNK_ID], distinct, row[UNK_ID])
        rows.append((language, *(f"{number:,}" for number in shown)))
    header = ("language", "utterances", "units", "distinct", "<unk>")
    _print_table(header, rows, right=(1, 2, 3, 4))


def _report_unknown(tokenizer: Tokenizer, counts: Mapping[str, Sequence[int]]) -> None:
    """Say how many units were unknown, in numbers and as a share."""
    unknown = sum(row[UNK_ID] for row in counts.values())
    total = unknown + sum(sum(row[tokenizer.num_special :]) for row in counts.values())
    say(f"<unk>: {unknown:,} of {total:,} units ({100 * unknown / max(total, 1):.2f} %)")


def _print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]
) -> None:
    """Print aligned columns; a pipe or a file gets lines of any length, never broken ones."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, name in enumerate(header):
        side = "right" if column in right else "left"
        table.add_column(name, justify=side, no_wrap=not sys.stdout.isatty())  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else 100_000, highlight=False).print(table)
