"""The corpus section: where the recordings are, and which of them are used for what."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from arborvox.config.section import Section


class FolderConfig(Section):
    """How a folder or table of recordings is read (`corpus.kind: folder`)."""

    language: str | None = None
    audio_root: str | None = None
    audio_column: str = "path"
    text_column: str = "text"
    speaker_column: str = "speaker"
    language_column: str = "language"


class SyntheticConfig(Section):
    """What espeak-ng is asked to say (`corpus.kind: synthetic`)."""

    text: str | None = None
    sentences: int = Field(200, gt=0)
    speakers: int = Field(12, gt=0)
    # Without a text: names that are lined up in a sentence, by lot; [1] makes a corpus of words.
    names: tuple[Annotated[int, Field(gt=0)], ...] = Field((2, 3, 4), min_length=1)
    # Of a text: pieces of this many words, by lot, instead of whole sentences.
    words: tuple[Annotated[int, Field(gt=0)], ...] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _check_words(self) -> "SyntheticConfig":
        if self.words is not None and self.text is None:
            raise ValueError("words are pieces of a text: give text, or names instead of words")
        return self


class CorpusConfig(Section):
    """Where the recordings are and how they become training, development and test sets."""

    kind: Literal["common-voice", "ucla", "folder", "synthetic"] = "folder"
    source: str | None = None
    languages: tuple[str, ...] | None = None
    test_languages: tuple[str, ...] | None = None
    unit: Literal["text", "phones"] = "text"
    split: Literal["speaker", "paper", "official"] = "speaker"
    dev: Literal["utterances", "languages"] = "utterances"
    alpha: float = Field(0.5, ge=0, le=1)
    ratio: float | None = Field(None, gt=0, le=1)
    hours: float | None = Field(None, gt=0)
    digits: Literal["keep", "drop", "reject"] = "reject"
    foreign: Literal["keep", "drop", "reject"] = "reject"
    check: Literal["auto", "headers", "decode"] = "auto"
    min_duration_s: float = Field(0.1, ge=0)
    max_duration_s: float = Field(30.0, gt=0)
    # Characters (or phones) a second; nobody speaks so fast, and a text that is longer is wrong.
    max_units_per_s: float = Field(40.0, gt=0)
    seed: int = Field(0, ge=0)
    folder: FolderConfig = FolderConfig()
    synthetic: SyntheticConfig = SyntheticConfig()
    # Corpora whose training parts are added; of a language kept for testing nothing is.
    more: tuple["CorpusConfig", ...] = ()

    @model_validator(mode="after")
    def _check_amount(self) -> "CorpusConfig":
        if self.ratio is not None and self.hours is not None:
            raise ValueError("give ratio or hours, not both")
        return self

    @model_validator(mode="after")
    def _check_more(self) -> "CorpusConfig":
        if any(part.more for part in self.more):
            raise ValueError("a corpus in `more` cannot have `more` itself")
        if any(part.unit != self.unit for part in self.more):
            raise ValueError(f"a corpus in `more` must have unit {self.unit}, as the first one")
        return self
