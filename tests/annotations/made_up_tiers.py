"""Tiers made up by Hypothesis, and a file as an old ELAN writes it (made anew, not copied)."""

import itertools

from hypothesis import strategies as st

from arborvox.annotations import Annotation, TextGrid, Tier

# What XML can hold; line ends other than \n come back as \n, so they are left out here.
texts = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"
    ),
    max_size=12,
) | st.sampled_from(["", "***", 'he said "ah"', "a < b & c > d", "]]>", "t͡ʃʼ ŋ̊", "بۇ", "\n", "𐎀"])
milliseconds = st.integers(0, 7_200_000)


@st.composite
def spans(draw: st.DrawFn) -> tuple[float, float]:
    first, last = sorted((draw(milliseconds), draw(milliseconds)))
    return first / 1000, last / 1000


@st.composite
def tier_sets(draw: st.DrawFn, prefix: str = "") -> tuple[Tier, ...]:
    """Independent tiers, which may overlap and be of no length, and symbolic ones on them."""
    tiers: list[Tier] = []
    for number in range(draw(st.integers(0, 4))):
        name = f"{prefix}{number} {draw(texts)}".strip()
        participant = draw(st.sampled_from(["", "A", 'B "b"', "Ж"]))
        parents = [tier for tier in tiers if tier.annotations]
        kind = draw(st.sampled_from(["own", "Symbolic_Association", "Symbolic_Subdivision"]))
        if kind == "own" or not parents:
            found = [Annotation(*span, draw(texts)) for span in draw(st.lists(spans(), max_size=5))]
            tiers.append(Tier(name, tuple(found), participant, f"{prefix}utterance"))
            continue
        parent = draw(st.sampled_from(parents))
        found = []
        for place, above in enumerate(parent.annotations):
            most = 1 if kind == "Symbolic_Association" else 3
            num = draw(st.integers(0, most))
            start_ms, end_ms = round(above.start_s * 1000), round(above.end_s * 1000)
            for nth in range(num):
                edges = (start_ms + round((end_ms - start_ms) * n / num) for n in (nth, nth + 1))
                found.append(Annotation(*(edge / 1000 for edge in edges), draw(texts), place))
        tiers.append(
            Tier(name, tuple(found), participant, f"{prefix}{kind}", parent.name, kind)  # type: ignore[arg-type]
        )
    return tuple(tiers)


@st.composite
def grids(draw: st.DrawFn) -> TextGrid:
    """TextGrids whose intervals follow each other, with points beside them."""
    end_s = draw(st.floats(0.01, 7200.0))
    tiers = []
    for number in range(draw(st.integers(0, 4))):
        name = f"{number} {draw(texts)}"
        places = sorted({draw(st.floats(0.0, 1.0)) * end_s for _ in range(draw(st.integers(0, 5)))})
        if draw(st.booleans()):
            found = [Annotation(at_s, at_s, draw(texts)) for at_s in places]
            tiers.append(Tier(name, tuple(found), is_point=True))
            continue
        edges = [0.0]
        edges += [p for p in places if p > 1e-3 and end_s - p > 1e-3]
        edges = [e for n, e in enumerate(edges) if n == 0 or e - edges[n - 1] > 1e-3]
        edges.append(end_s)
        pairs = itertools.pairwise(edges)
        tiers.append(Tier(name, tuple(Annotation(a, b, draw(texts)) for a, b in pairs)))
    return TextGrid(0.0, end_s, tuple(tiers))


# As ELAN 4 wrote them: no times for slots inside a subdivision, words in order of their links, a
# controlled vocabulary of the old form, and an element that nobody knows.
OLD_EAF = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2009-03-01T10:00:00+01:00" FORMAT="2.7" VERSION="2.7">
    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
        <MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/field/tape 1.wav"
            MIME_TYPE="audio/x-wav" RELATIVE_MEDIA_URL="./audio/tape%201.wav"/>
        <PROPERTY NAME="lastUsedAnnotationId">9</PROPERTY>
    </HEADER>
    <TIME_ORDER>
        <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="1000"/>
        <TIME_SLOT TIME_SLOT_ID="ts2"/>
        <TIME_SLOT TIME_SLOT_ID="ts3"/>
        <TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="4000"/>
    </TIME_ORDER>
    <TIER LINGUISTIC_TYPE_REF="utterance" PARTICIPANT="Ana" TIER_ID="tx@Ana">
        <ANNOTATION>
            <ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts4">
                <ANNOTATION_VALUE>bon dia &amp; bona nit</ANNOTATION_VALUE>
            </ALIGNABLE_ANNOTATION>
        </ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="syllables" PARENT_REF="tx@Ana" TIER_ID="syl">
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts1"
            TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>bon</ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a3" TIME_SLOT_REF1="ts2"
            TIME_SLOT_REF2="ts3"><ANNOTATION_VALUE>di</ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a4" TIME_SLOT_REF1="ts3"
            TIME_SLOT_REF2="ts4"><ANNOTATION_VALUE>a</ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="words" PARENT_REF="tx@Ana" TIER_ID="words">
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a6" ANNOTATION_REF="a1"
            PREVIOUS_ANNOTATION="a5"><ANNOTATION_VALUE>dia</ANNOTATION_VALUE>
        </REF_ANNOTATION></ANNOTATION>
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a5" ANNOTATION_REF="a1">
            <ANNOTATION_VALUE>bon</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="gloss" PARENT_REF="words" TIER_ID="gl">
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a7" ANNOTATION_REF="a5">
            <ANNOTATION_VALUE>good</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a8" ANNOTATION_REF="a6">
            <ANNOTATION_VALUE>day</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
    </TIER>
    <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="utterance" TIME_ALIGNABLE="true"/>
    <LINGUISTIC_TYPE CONSTRAINTS="Time_Subdivision" LINGUISTIC_TYPE_ID="syllables"
        TIME_ALIGNABLE="true"/>
    <LINGUISTIC_TYPE CONSTRAINTS="Symbolic_Subdivision" LINGUISTIC_TYPE_ID="words"
        TIME_ALIGNABLE="false"/>
    <LINGUISTIC_TYPE CONSTRAINTS="Symbolic_Association" CONTROLLED_VOCABULARY_REF="v"
        LINGUISTIC_TYPE_ID="gloss" TIME_ALIGNABLE="false"/>
    <LOCALE COUNTRY_CODE="US" LANGUAGE_CODE="en"/>
    <CONSTRAINT DESCRIPTION="parts" STEREOTYPE="Time_Subdivision"/>
    <CONSTRAINT DESCRIPTION="parts" STEREOTYPE="Symbolic_Subdivision"/>
    <CONSTRAINT DESCRIPTION="one to one" STEREOTYPE="Symbolic_Association"/>
    <CONTROLLED_VOCABULARY CV_ID="v" DESCRIPTION=""><CV_ENTRY DESCRIPTION="">good</CV_ENTRY>
    </CONTROLLED_VOCABULARY>
    <!-- somebody's own -->
    <SOMETHING_ELSE keep="me"><x/></SOMETHING_ELSE>
</ANNOTATION_DOCUMENT>
"""
