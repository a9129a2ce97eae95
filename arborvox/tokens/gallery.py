"""All trees, pictures and heat maps of a collection of languages, in one go."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arborvox.config.choices import TreeKind
from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.files import write_text_atomic
from arborvox.tokens.building import build_tokenizer
from arborvox.tokens.closeness import draw_closeness, language_closeness
from arborvox.tokens.corpus import TextCorpus
from arborvox.tokens.reports import report_skipped
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tokens.trees import MAX_LANGUAGE_COLORS, build_tree, color_units
from arborvox.tree import CodeTree, save_tree
from arborvox.tree.drawing import draw_tree
from arborvox.tree.measures import entropy_bits, expected_code_length

TEXT_KINDS: tuple[TreeKind, ...] = ("huffman", "balanced", "random")
PHONE_KINDS: tuple[TreeKind, ...] = (*TEXT_KINDS, "phonetic")
DRAWN_KINDS = ("huffman", "phonetic")  # trees in which neighbors mean something


@dataclass(frozen=True)
class Exhibit:
    """One set of languages with its vocabulary and trees."""

    name: str
    tokenizer: Tokenizer
    trees: Mapping[TreeKind, CodeTree]


def make_gallery(
    out: Path,
    *,
    text: Path | None,
    phones: Path | None,
    groups: Mapping[str, str],
    unheard: Collection[str],
) -> None:
    """Write a folder for each set of languages, and an index of them all.

    `groups` names the group of a language; `unheard` are languages that only test phones.
    """
    if text is None and phones is None:
        raise ArborvoxError("A gallery needs --text, --phones or both.")
    exhibits = []
    if text is not None:
        for name, languages in _language_sets(text, groups).items():
            exhibits.append(_exhibit(out, name, TextCorpus([text], languages), "char", TEXT_KINDS))
    if phones is not None:
        exhibits.append(
            _exhibit(out, "phones", _phone_corpus(phones, unheard), "phone", PHONE_KINDS)
        )
    write_text_atomic(out / "index.md", _index(exhibits))
    say(f"wrote {out / 'index.md'}")


def _language_sets(text: Path, groups: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the languages of the folder by group, and all of them."""
    languages = TextCorpus([text]).text_languages
    sets: dict[str, list[str]] = {}
    for language in languages:
        if language in groups:
            sets.setdefault(groups[language].lower(), []).append(language)
    return {**dict(sorted(sets.items())), "all": languages}


def _phone_corpus(source: Path, unheard: Collection[str]) -> TextCorpus:
    """Return prepared training cuts, or the UCLA corpus without the languages kept for testing."""
    corpus = TextCorpus([source])
    languages = [name for name in corpus.text_languages if name not in unheard]
    return TextCorpus([source], languages or None)


def _exhibit(
    out: Path, name: str, corpus: TextCorpus, unit: str, kinds: Sequence[TreeKind]
) -> Exhibit:
    """Build, save and draw everything about one set of languages."""
    folder = out / name
    tokenizer = build_tokenizer(corpus, unit)
    report_skipped(corpus)
    tokenizer.save(folder / "tokens.json")
    draw_closeness(language_closeness(tokenizer), folder / "languages.svg")
    color = "language" if len(tokenizer.languages) <= MAX_LANGUAGE_COLORS else "sharing"
    trees = {kind: build_tree(tokenizer, kind) for kind in kinds}
    for kind, tree in trees.items():
        save_tree(tree, folder / f"{kind}.json")
        if kind in DRAWN_KINDS:
            title = f"{name}, {kind}"
            draw_tree(tree, folder / f"{kind}.svg", color_units(tokenizer, color), title)
    say(f"wrote {folder}: {', '.join(kinds)} over {len(tokenizer)} tokens")
    return Exhibit(name, tokenizer, trees)


def _index(exhibits: Sequence[Exhibit]) -> str:
    """Return a page of Markdown with the numbers and the pictures."""
    lines = [
        "# Trees and languages",
        "",
        "| set | languages | units | entropy (bits) | tree | mean code (bits) | longest |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for shown in exhibits:
        for kind, tree in shown.trees.items():
            cells = (
                f"[{shown.name}](#{shown.name})",
                str(len(shown.tokenizer.languages)),
                str(tree.num_leaves),
                f"{entropy_bits(tree.probabilities):.3f}",
                f"[{kind}]({shown.name}/{kind}.json)",
                f"{expected_code_length(tree):.3f}",
                str(tree.depth),
            )
            lines.append(f"| {' | '.join(cells)} |")
    for shown in exhibits:
        lines += ["", f"## {shown.name}", "", f"Languages: {', '.join(shown.tokenizer.languages)}"]
        for kind in shown.trees:
            if kind in DRAWN_KINDS:
                lines += ["", f"![{shown.name}, {kind} tree]({shown.name}/{kind}.svg)"]
        lines += ["", f"![{shown.name}, languages]({shown.name}/languages.svg)"]
    return "\n".join(lines) + "\n"
