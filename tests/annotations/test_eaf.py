"""ELAN's files: what is written is read, what is there stays, and nothing harmful is done."""

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))
from budgets import bounded_memory, examples
from eaf_rules import broken_rules
from hypothesis import given
from hypothesis import strategies as st
from made_up_tiers import OLD_EAF, tier_sets

from arborvox.annotations import Annotation, Tier, add_tiers, make_eaf, read_eaf, spoken_spans
from arborvox.annotations.safe_xml import MOST_MIB
from arborvox.errors import ArborvoxError

DATE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WORDS = (
    Tier("new", (Annotation(1.0, 2.5, "bon & <dia>"),), "Ana", "recognized"),
    Tier("new words", (Annotation(1.0, 1.5, "bon"),), "", "parts", "new", "Included_In"),
    Tier("sure", (Annotation(1.0, 2.5, "0.9", 0),), "", "gloss", "new", "Symbolic_Association"),
)


@examples(200, 2000)
@given(tiers=tier_sets())
def test_what_is_written_comes_back(tiers: tuple[Tier, ...]) -> None:
    data = make_eaf(tiers, Path("/tapes/tape 1.wav"), DATE, Path("/tapes"))
    found = read_eaf(data)
    assert found.tiers == tiers
    assert found.problems == ()
    assert found.media[0].relative_url == "./tape%201.wav"
    assert broken_rules(data) == []


@pytest.mark.parametrize(
    ("folder", "way"), [("/a", "./b/x.wav"), ("/a/b", "./x.wav"), ("/a/c d", "../b/x.wav")]
)
def test_a_recording_is_linked_from_where_the_file_will_lie(folder: str, way: str) -> None:
    media = read_eaf(make_eaf((), Path("/a/b/x.wav"), DATE, Path(folder))).media[0]
    assert (media.url, media.relative_url) == ("file:///a/b/x.wav", way)
    assert read_eaf(make_eaf((), Path("/a/b/x.wav"), DATE)).media[0].relative_url == ""


def inserted_only(before: bytes, after: bytes) -> bool:
    """Whether `after` is `before` with something put in between."""
    rest = iter(after.splitlines(keepends=True))
    return all(line in rest for line in before.splitlines(keepends=True))


@examples(200, 2000)
@given(tiers=tier_sets("old"), more=tier_sets("new"))
def test_adding_tiers_leaves_all_else_as_it_was(
    tiers: tuple[Tier, ...], more: tuple[Tier, ...]
) -> None:
    before = make_eaf(tiers, None, DATE)
    after = add_tiers(before, more, "x.eaf")
    assert inserted_only(before, after)
    assert read_eaf(after).tiers == (*tiers, *more)
    assert broken_rules(after) == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_old_file_keeps_its_bytes(encoding: str, end: str) -> None:
    declared = OLD_EAF.replace("UTF-8", encoding.removesuffix("-sig").upper())
    before = declared.replace("\n", end).encode(encoding)
    after = add_tiers(before, (*WORDS, Tier("ŋ", (Annotation(9.0, 9.5, "ŋ̊"),))), "x.eaf")
    pieces = [re.split("(?=<)", data.decode(encoding)) for data in (before, after)]
    rest = iter(pieces[1])
    assert all(piece in rest for piece in pieces[0])
    old, new = read_eaf(before), read_eaf(after)
    assert new.tiers[: len(old.tiers)] == old.tiers
    assert new.tier("new words") == WORDS[1]
    assert new.tier("ŋ") == Tier("ŋ", (Annotation(9.0, 9.5, "ŋ̊"),), type_name="default-lt")
    # The type of that name has a vocabulary, so the tier gets one of its own.
    sure = new.tier("sure")
    assert sure is not None and sure.type_name == "gloss-2"
    assert broken_rules(after.decode(encoding).encode(encoding)) == []


@pytest.mark.parametrize("order", ["<TIME_ORDER/>", "<TIME_ORDER></TIME_ORDER>", "<TIME_ORDER />"])
def test_a_file_without_times_gets_some(order: str) -> None:
    before = (
        f"<ANNOTATION_DOCUMENT><HEADER/>{order}"
        '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="recognized" TIME_ALIGNABLE="true"/>'
        "</ANNOTATION_DOCUMENT>"
    ).encode()
    after = add_tiers(before, WORDS, "x.eaf")
    assert read_eaf(after).tier("new") == WORDS[0]
    assert after.count(b"LINGUISTIC_TYPE_ID=") == 3
    assert broken_rules(after) == []


def test_ids_do_not_meet_those_that_are_there() -> None:
    before = OLD_EAF.replace('"a7"', '"av_1"').replace('"a8"', '"av1_7"').encode()
    assert broken_rules(add_tiers(before, WORDS, "x.eaf")) == []


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ArborvoxError, match=r"^x.eaf has a tier 'words' already"):
        add_tiers(OLD_EAF.encode(), (Tier("words"),), "x.eaf")


def test_times_that_are_not_written_follow_from_neighbors_and_parents() -> None:
    found = read_eaf(OLD_EAF.encode())
    assert found.problems == ()
    syllables, words, gloss = (found.tier(name) for name in ("syl", "words", "gl"))
    assert syllables is not None and words is not None and gloss is not None
    assert [(a.start_s, a.end_s) for a in syllables.annotations] == [(1, 2), (2, 3), (3, 4)]
    # In the order of the links, whatever the order in the file.
    assert [(a.value, a.start_s, a.end_s) for a in words.annotations] == [
        ("dia", 2.5, 4),
        ("bon", 1, 2.5),
    ]
    assert [(a.value, a.start_s) for a in gloss.annotations] == [("good", 1), ("day", 2.5)]
    spoken = spoken_spans(found, gloss)
    assert spoken == [Annotation(1.0, 4.0, "good day")]
    assert found.tier("tx@Ana") is not None
    assert found.tiers[0].participant == "Ana"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('TIME_SLOT_REF2="ts4"', 'TIME_SLOT_REF2="ts9"', "annotation a1: no times"),
        ('TIME_VALUE="4000"', 'TIME_VALUE="-1"', "time slot ts4: '-1' is no time"),
        ('TIME_VALUE="4000"', 'TIME_VALUE="' + "9" * 400 + '"', "is no time in milliseconds"),
        ('ANNOTATION_REF="a5"', 'ANNOTATION_REF="a7"', "annotation a7: no times"),
        ('PARENT_REF="tx@Ana" TIER_ID="words"', 'PARENT_REF="gl" TIER_ID="words"', "tier words"),
        ('PARENT_REF="tx@Ana" TIER_ID="words"', 'PARENT_REF="no" TIER_ID="words"', "tier words"),
        ('TIER_ID="syl"', 'TIER_ID="words"', "tier words: another one has its name"),
        (">bon<", f">{'x' * 100_001}<", "cut off after 100,000 characters"),
    ],
)
def test_a_fault_costs_what_hangs_on_it_and_is_told(old: str, new: str, problem: str) -> None:
    found = read_eaf(OLD_EAF.replace(old, new).encode())
    assert any(problem in told for told in found.problems), found.problems
    for tier in found.tiers:
        spoken_spans(found, tier)


ENTITIES = "".join(f'<!ENTITY a{n + 1} "' + f"&a{n};" * 10 + '">' for n in range(11))
BOMB = (
    f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{ENTITIES}]>'
    "<ANNOTATION_DOCUMENT>&a11;</ANNOTATION_DOCUMENT>"
)
OUTSIDE = (
    '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    "<ANNOTATION_DOCUMENT>&e;</ANNOTATION_DOCUMENT>"
)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (BOMB, "line 1: a document type or an entity is declared"),
        (OUTSIDE, "line 1: a document type or an entity is declared"),
        ('<!DOCTYPE x SYSTEM "http://example.org/x.dtd"><x/>', "a document type or an entity"),
        ("<ANNOTATION_DOCUMENT>&nothing;</ANNOTATION_DOCUMENT>", "not valid XML (undefined entity"),
        ("<x>" * 200, "nested too deeply"),
        ("<html/>", "is no EAF: its outermost element is 'html'"),
        ("<ANNOTATION_DOCUMENT>", "not valid XML (no element found)"),
        ("", "not valid XML"),
        ('<?xml version="1.0" encoding="klingon"?><x/>', "encoding"),
        (
            '<ANNOTATION_DOCUMENT><HEADER TIME_UNITS="PAL-frames"/></ANNOTATION_DOCUMENT>',
            "not milliseconds",
        ),
    ],
)
def test_harmful_and_broken_files_are_refused_in_a_sentence(
    tmp_path: Path, data: str, told: str
) -> None:
    path = tmp_path / "x.eaf"
    path.write_text(data, encoding="utf-8")
    with bounded_memory(), pytest.raises(ArborvoxError) as caught:
        read_eaf(path)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    if "milliseconds" not in told:
        with pytest.raises(ArborvoxError):
            add_tiers(data.encode(), (), "x.eaf")


def test_a_file_that_is_far_too_large_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.eaf"
    with path.open("wb") as file:
        file.write(b"<ANNOTATION_DOCUMENT>")
        file.truncate(1 << 30)  # a hole, not a gigabyte
    with bounded_memory(), pytest.raises(ArborvoxError, match=r"line 1: not valid XML|larger than"):
        read_eaf(path)
    with path.open("r+b") as file:
        for block in range(MOST_MIB + 1):
            file.seek(max(block << 20, 21))
            file.write(b" " * (1 << 20))
    with bounded_memory(), pytest.raises(ArborvoxError, match=rf"is larger than {MOST_MIB} MiB"):
        read_eaf(path)


@examples(200, 2000)
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(OLD_EAF)), st.integers(0, 40), st.binary(max_size=6)),
        min_size=1,
        max_size=3,
    )
)
def test_a_torn_file_is_read_or_refused(cuts: list[tuple[int, int, bytes]]) -> None:
    data = OLD_EAF.encode()
    for at, length, new in cuts:
        data = data[:at] + new + data[at + length :]
    try:
        found = read_eaf(data, "x.eaf")
        for tier in found.tiers:
            spoken_spans(found, tier)
        added = read_eaf(add_tiers(data, WORDS[:1], "x.eaf"))
    except ArborvoxError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith("x.eaf")
    else:
        assert added.tier("new") is not None


def test_files_are_valid_by_the_schema_of_version_3() -> None:
    named = os.environ.get("ARBORVOX_EAF_SCHEMA")
    if not named:
        pytest.skip("needs EAFv3.0.xsd: set ARBORVOX_EAF_SCHEMA to where it lies")
    xmlschema = pytest.importorskip("xmlschema", reason="needs the package xmlschema")
    schema = xmlschema.XMLSchema(named)
    schema.validate(make_eaf(WORDS, Path("/tapes/tape 1.wav"), DATE, Path("/x")).decode())

    @examples(60, 200)
    @given(tiers=tier_sets("old"), more=tier_sets("new"))
    def is_valid(tiers: tuple[Tier, ...], more: tuple[Tier, ...]) -> None:
        data = add_tiers(make_eaf(tiers, None, DATE), more, "x.eaf")
        schema.validate(data.decode())

    is_valid()
