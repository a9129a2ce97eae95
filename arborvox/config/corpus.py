"""The corpus section, one class a kind: where the recordings are, and which are used for what.

A key's description is also the help of its option of `arborvox prepare`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from arborvox.config.choices import (
    Check,
    CorpusKind,
    CorpusUnit,
    CutBy,
    DrawnSplit,
    FolderSplit,
    Harakat,
    HeldOut,
    LookAlikes,
    OwnSplit,
    Policy,
    SpeakerFrom,
    Split,
    TierSpeakerFrom,
    TierSplit,
    values_of,
)
from arborvox.config.section import Name, Section, Seed

# Which kind a section without `kind` is.
DEFAULT_KIND: CorpusKind = "folder"
MAX_LANGUAGES = 10_000

Languages = Annotated[tuple[Name, ...], Field(max_length=MAX_LANGUAGES)]
Count = Annotated[int, Field(gt=0, le=1000)]
SetNames = Annotated[tuple[Name, ...], Field(max_length=100)]


class CorpusConfig(Section):
    """The keys that every kind of corpus has."""

    # A kind cannot be prepared without `needed`; `places` name files or folders, `codes` languages.
    needed: ClassVar[tuple[str, ...]] = ("source",)
    places: ClassVar[tuple[str, ...]] = ("source",)
    takes_addresses: ClassVar[bool] = False  # whether the source may be far away
    codes: ClassVar[tuple[str, ...]] = ("languages",)

    kind: CorpusKind
    source: str | None = Field(None, description="The folder to read.")
    languages: Languages | None = Field(None, description="Only these, such as ca,es,it.")
    unit: CorpusUnit = Field("text", description="What is to be learned: text, or phones.")
    check: Check = Field(
        "auto",
        description="How recordings are looked at: headers, decode (whole), auto (decode up to "
        "20,000).",
    )
    min_duration_s: float = Field(
        0.1, ge=0, le=3600, description="Leave out what is shorter, in seconds."
    )
    max_duration_s: float = Field(
        30.0, gt=0, le=86_400, description="Leave out what is longer, in seconds."
    )
    max_units_per_s: float = Field(
        40.0,
        gt=0,
        le=1_000_000,
        description="Leave out texts of more characters (or phones) a second: nobody speaks so "
        "fast.",
    )
    seed: Seed = Field(0, description="Another seed draws another split.")
    # Corpora whose training parts are added; of a language kept for testing nothing is.
    more: tuple["Corpus", ...] = Field((), max_length=100)

    @property
    def origins(self) -> tuple[str | None, ...]:
        """What the corpus is made from."""
        return (self.source,)

    def cause_of_empty(self, split: str) -> str:
        """Say why a set of this corpus is empty and what to do, if its kind alone tells."""
        return ""

    @model_validator(mode="after")
    def _check_more(self) -> "CorpusConfig":
        if any(part.more for part in self.more):
            raise ValueError("a corpus in `more` cannot have `more` itself")
        if any(part.unit != self.unit for part in self.more):
            raise ValueError(f"a corpus in `more` must have unit {self.unit}, as the first one")
        return self


class NormalizedCorpus(CorpusConfig):
    """A corpus whose texts are normalized."""

    digits: Policy = Field(
        "reject", description="Sentences with digits: reject, drop the digits, or keep."
    )
    foreign: Policy = Field(
        "reject", description="Letters of another script: reject the sentence, drop, or keep."
    )
    harakat: Harakat = Field(
        "keep",
        description="The vowel signs of Arabic, which most texts leave out: keep, or drop them.",
    )


class WrittenCorpus(NormalizedCorpus):
    """A corpus of texts that are looked over, and of which sets are drawn."""

    unit: CorpusUnit = Field(
        "text",
        description="What is to be learned: text, or phones: those of a folder, or read by "
        "espeak-ng.",
    )
    look_alikes: LookAlikes = Field(
        "report",
        description="Letters that look alike, such as Greek ε among Latin letters: report them, "
        "or unify them to the language's own.",
    )
    dev_share: float = Field(
        0.05,
        gt=0,
        le=0.5,
        description="Share of the utterances for development, where that set is drawn.",
    )


class ReleaseCorpus(WrittenCorpus):
    """A corpus in the shape of a Common Voice release, whose training hours can be thinned out."""

    split: Split = Field(
        "speaker",
        description="speaker: no speaker and no sentence on two sides; utterance: at random, as "
        "in the paper; official: the release's own; official-test: its test set alone, and for "
        "training all other validated clips that share no speaker and no sentence with it.",
    )
    alpha: float = Field(
        0.5, ge=0, le=1, description="How much small languages are favored: 1 not, 0 fully."
    )
    ratio: float | None = Field(
        None, gt=0, le=1, description="Share of the training hours to keep, all told."
    )
    hours: float | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="Hours of training to keep, all languages together.",
    )

    def cause_of_empty(self, split: str) -> str:
        """An official set is as the release has it."""
        if self.split != "official" and (self.split, split) != ("official-test", "test"):
            return ""
        return f"the release's {split}.tsv names no clip that can be used; use another --split"

    @model_validator(mode="after")
    def _check_amount(self) -> "ReleaseCorpus":
        if self.ratio is not None and self.hours is not None:
            raise ValueError("give ratio or hours, not both")
        return self


class CommonVoiceCorpus(ReleaseCorpus):
    """A Common Voice release, or language folders of one (validated.tsv and clips/).

    Training hours are thinned out by the paper's rule, λ_i = p_i^(α−1) / Σ_j p_j^α · λ; the test
    set is the lesser of 10 % and 10,000 utterances of each language.
    """

    codes: ClassVar[tuple[str, ...]] = ("languages", "language")

    kind: Literal["common-voice"] = "common-voice"
    language: Name | None = Field(
        None, description="The language of a folder whose name is no language code."
    )


class UclaCorpus(CorpusConfig):
    """The UCLA Phonetic Corpus: phones of 95 languages, ten of them only for testing."""

    codes: ClassVar[tuple[str, ...]] = ("languages", "test_languages")

    kind: Literal["ucla"] = "ucla"
    unit: Literal["phones"] = Field("phones", description="The corpus has phones only.")
    test_languages: Languages | None = Field(
        None, description="Never heard in training; the paper's ten if left out."
    )
    dev: HeldOut = Field(
        "utterances", description="Held out for development: utterances, or whole languages."
    )
    ratio: float | None = Field(
        None, gt=0, le=1, description="Share of the training utterances to keep, by language."
    )

    def cause_of_empty(self, split: str) -> str:
        """The test set is made of whole languages."""
        if split != "test":
            return ""
        return (
            "no utterance of a language that is kept for testing can be used; name such languages "
            "with --test-languages"
        )


class OwnCorpus(WrittenCorpus):
    """A user's own recordings, in one language or several."""

    places: ClassVar[tuple[str, ...]] = ("source", "keep_split")
    codes: ClassVar[tuple[str, ...]] = ("languages", "language")

    language: Name | None = Field(None, description="The language of it all, such as sah.")
    ignore: tuple[Name, ...] | None = Field(
        None,
        max_length=1000,
        description="Texts that stand for no speech or no transcript, such as ***,xxx.",
    )
    split: OwnSplit
    keep_split: str | None = Field(
        None, description="A split.tsv of before: its utterances stay where they were."
    )
    train_minutes: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="Train on no more of each language; the sets that are held out stay whole.",
    )

    @property
    def origins(self) -> tuple[str | None, ...]:
        """What the corpus is made from: recordings, and a split that is kept."""
        return (self.source, self.keep_split)


class FolderCorpus(OwnCorpus):
    """Your own recordings, in any of three shapes, with a split of their own or without."""

    places: ClassVar[tuple[str, ...]] = ("source", "audio_root", "keep_split")

    kind: Literal["folder"] = "folder"
    source: str | None = Field(
        None,
        description="Audio with .txt files beside it, a Kaldi folder, or a csv, tsv or jsonl "
        "table; or a folder with one of these for each set: train, dev, test.",
    )
    audio_root: str | None = Field(
        None, description="Where a table's audio lies; its own folder if left out."
    )
    audio_column: Name = Field("path", description="The table's column of audio files.")
    text_column: Name = Field("text", description="The table's column of texts.")
    speaker_column: Name = Field("speaker", description="Its column of speakers.")
    language_column: Name = Field("language", description="Its column of languages.")
    split_column: Name = Field("split", description="Its column of sets: train, dev, test.")
    strip_prefix: Name | None = Field(
        None, description="What to take off the paths in a table or a wav.scp."
    )
    text_suffix: Name = Field(
        ".txt", description="What the text beside x.wav is called: x and this."
    )
    speaker_from: SpeakerFrom | None = Field(
        None,
        description="Where nothing else names the speaker: the folder of the recording, or its "
        "name up to the first _ or -.",
    )
    split: FolderSplit = Field(
        "auto",
        description="speaker: no speaker and no sentence on two sides; sentence: no sentence; "
        "utterance: at random; given: the corpus's own; auto: the corpus's own if it has one, "
        "else by speaker where there are eight or more, else by sentence.",
    )
    train_sets: SetNames | None = Field(
        None, description="What the corpus calls its training set; train and the like if left out."
    )
    dev_sets: SetNames | None = Field(None, description="The same of its development set.")
    test_sets: SetNames | None = Field(None, description="The same of its test set.")
    cut_by: CutBy = Field(
        "sentence", description="How a set that a given split lacks is cut from training."
    )

    def cause_of_empty(self, split: str) -> str:
        """A given set is as the corpus has it."""
        if self.split != "given":
            return ""
        return f"no utterance of the corpus's own {split} set can be used; use another --split"

    @model_validator(mode="after")
    def _check_sets(self) -> "FolderCorpus":
        said = [n for s in (self.train_sets, self.dev_sets, self.test_sets) for n in s or ()]
        folded = [name.casefold() for name in said]
        twice = next((name for name in said if folded.count(name.casefold()) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} names two sets")
        return self


class TierCorpus(OwnCorpus):
    """Recordings with files of tiers; annotations become utterances."""

    tier: tuple[Name, ...] | None = Field(
        None, max_length=1000, description="Tiers to learn from; tx is also tx@Ana, tx@Ivo."
    )
    speaker_from: TierSpeakerFrom | None = Field(
        None,
        description="Where nothing else names the speaker: the name of the tier, the folder of the "
        "recording, or its name up to the first _ or -.",
    )
    split: TierSplit = Field(
        "recording",
        description="recording: no recording and no sentence on two sides, or by sentence where "
        "there are fewer than three; speaker: no speaker and no sentence; sentence: no sentence; "
        "utterance: at random.",
    )


class ElanCorpus(TierCorpus):
    """A project of ELAN: .eaf files with their recordings; annotations become utterances."""

    kind: Literal["elan"] = "elan"
    source: str | None = Field(None, description="A folder of .eaf files, or one of them.")
    tier_type: Name | None = Field(
        None, description="Or all tiers of this type, whatever their names."
    )


class PraatCorpus(TierCorpus):
    """A folder of TextGrids of Praat with their recordings; intervals become utterances."""

    kind: Literal["praat"] = "praat"
    source: str | None = Field(None, description="A folder of .TextGrid files, or one of them.")


class ShardsCorpus(NormalizedCorpus):
    """A corpus in shards: a Lhotse Shar, or plain WebDataset tars; recordings stay in them."""

    codes: ClassVar[tuple[str, ...]] = ("languages", "language")
    takes_addresses: ClassVar[bool] = True

    kind: Literal["shards"] = "shards"
    source: str | None = Field(
        None,
        description="A folder with train/, dev/ and test/, or of one set; a path or an address "
        "such as https://host/folder.",
    )
    language: Name | None = Field(None, description="The language of what names none, such as sah.")
    only_set: Name = Field(
        "train",
        pattern="^(train|dev|test)$",
        description="The set of shards that lie in no folder of a set: train, dev or test.",
    )

    @property
    def origins(self) -> tuple[str | None, ...]:
        """What the corpus is made from, on this machine; what lies far away is not watched."""
        return (None,) if self.source and "://" in self.source else (self.source,)

    def cause_of_empty(self, split: str) -> str:
        """A set is what its folder has."""
        return f"there is no usable shard for it; put some into {split}/ of the source"


class SyntheticCorpus(ReleaseCorpus):
    """A corpus made on the spot with espeak-ng (needs the extra: pip install arborvox[demo])."""

    needed: ClassVar[tuple[str, ...]] = ("languages",)
    places: ClassVar[tuple[str, ...]] = ("source", "text")

    kind: Literal["synthetic"] = "synthetic"
    source: str | None = Field(
        None, description="Where the spoken corpus goes; OUT/corpus if left out."
    )
    languages: Languages | None = Field(None, description="Such as ca,es,it.")
    split: DrawnSplit = Field(
        "speaker",
        description="speaker: no speaker and no sentence on two sides; utterance: at random.",
    )
    text: str | None = Field(None, description="A folder with <language>.txt, a sentence a line.")
    sentences: int = Field(200, gt=0, le=1_000_000, description="How many, for each language.")
    speakers: int = Field(12, gt=0, le=10_000, description="How many voices, for each language.")
    names: tuple[Count, ...] = Field(
        (2, 3, 4),
        min_length=1,
        max_length=100,
        description="Without a text: names in a sentence, by lot; 1 makes single words.",
    )
    words: tuple[Count, ...] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Of a text: pieces of this many words, by lot, not sentences.",
    )

    @property
    def origins(self) -> tuple[str | None, ...]:
        """What the corpus is made from: sentences, where they are not made up."""
        return (self.text,)

    @model_validator(mode="after")
    def _check_words(self) -> "SyntheticCorpus":
        if self.words is not None and self.text is None:
            raise ValueError("words are pieces of a text: give text, or names instead of words")
        return self


def _sections(section: type[CorpusConfig]) -> Iterator[tuple[str, type[CorpusConfig]]]:
    """Yield each class below one that is for a single kind, with that kind."""
    for below in section.__subclasses__():
        kinds = get_args(below.model_fields["kind"].annotation)
        if len(kinds) == 1:
            yield kinds[0], below
        yield from _sections(below)


_SECTION_OF = dict(_sections(CorpusConfig))
CORPUS_SECTIONS = {kind: _SECTION_OF[kind] for kind in values_of(CorpusKind)}


def _kind_of(corpus: Any) -> str | None:
    """Return the kind that a section, or what is to become one, names."""
    if isinstance(corpus, dict):
        return str(corpus.get("kind", DEFAULT_KIND))
    kind: str | None = getattr(corpus, "kind", None)
    return kind


if TYPE_CHECKING:
    Corpus = CorpusConfig
else:
    Corpus = Annotated[
        Union[tuple(Annotated[s, Tag(kind)] for kind, s in CORPUS_SECTIONS.items())],  # noqa: UP007
        Discriminator(_kind_of),
    ]
    for _section in CORPUS_SECTIONS.values():
        _section.model_rebuild()
