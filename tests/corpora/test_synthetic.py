"""Laws of the synthetic corpus: real voices, clean phones, the same bytes every time."""

import os
import random
import signal
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("espeakng_loader", reason="needs the extra: pip install 'arborvox[demo]'")
pytest.importorskip("babel", reason="needs the extra: pip install 'arborvox[demo]'")

import espeakng_loader

from arborvox.config import make_corpus_config
from arborvox.corpora import synthetic
from arborvox.corpora.espeak import (
    ESPEAK_RATE_HZ,
    Espeak,
    SpeechError,
    Voice,
    _run_forked,
    available_languages,
    split_phones,
)
from arborvox.corpora.sentences import compose_sentences, cut_pieces, read_sentences
from arborvox.corpora.synthetic import VARIANTS, SyntheticOptions, make_speakers, synthesize
from arborvox.errors import ArborvoxError
from arborvox.files import read_json

CLDR_LANGUAGES = "ca es fr it pt be cs pl ru uk ky tr tt uz".split()
LANGUAGES = [*CLDR_LANGUAGES, "ba"]
IPA_LETTERS = set("abcdefhijklmnopqrstuvwxyzæçðøŋœɐɑɒɔɕəɛɜɟɡɣɨɪɫɬɭɯɱɲɵɹɾʁʂʃʈʉʊʋʌʎʐʑʒʔʝɖβθχ")
IPA_MARKS = set("ʲː\u0303\u0325\u0329\u032a\u031d\u0361\u030a")
SMALL = SyntheticOptions(languages=("es", "ky"), sentences_per_language=6, speakers=4)


@pytest.fixture
def espeak(monkeypatch: pytest.MonkeyPatch) -> Espeak:
    """The library inside this process; the working directory it takes is given back."""
    monkeypatch.chdir(Path.cwd())
    return Espeak()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus, made by one process."""
    return synthesize(tmp_path_factory.mktemp("synthetic") / "corpus", SMALL, jobs=1)


def plain_voice(language: str, variant: str = "f2") -> Voice:
    return Voice(language, variant, rate_wpm=160, pitch=50, pitch_range=50)


def tree_of(folder: Path) -> dict[str, bytes]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def rows_of(table: Path) -> Iterator[dict[str, str]]:
    header, *lines = (line.split("\t") for line in table.read_text("utf-8").splitlines())
    return (dict(zip(header, line, strict=True)) for line in lines)


def assert_clean_ipa(espeak: Espeak, language: str, sentences: list[str]) -> None:
    assert espeak.select(plain_voice(language))
    for sentence in sentences:
        for phone in split_phones(espeak.transcribe(sentence)):
            first, *rest = unicodedata.normalize("NFD", phone)
            assert first in IPA_LETTERS, (language, sentence, phone)
            assert set(rest) <= IPA_LETTERS | IPA_MARKS | {"\u0327"}, (language, sentence, phone)
            letters = sum(char in IPA_LETTERS for char in (first, *rest))
            assert letters == 1 + phone.count("\u0361"), (language, sentence, phone)


@pytest.mark.parametrize(
    ("transcription", "phones"),
    [
        ("t_ˌe_r_o_ɾ_ˈi_s_t_a ˈu_ʝ_o", "t e r o ɾ i s t a u ʝ o"),  # stress
        ("(en)_f_ɹ_ˈeɪ_m_z_(pt-pt)", "f ɹ e ɪ m z"),  # language switch, diphthong
        ("k_ts_e t_s tʃʲ tsː", "k t͡s e t s t͡ʃʲ t͡sː"),  # affricates are one phoneme
        ("ss ɯɯ t͡st͡sʲ ʈ͡ʂʈ͡ʂ", "sː ɯː t͡sʲː ʈ͡ʂː"),  # doubled is long
        ("d[_ɑ:_tS_oe: S N X dZ l-", "d̪ ɑː t͡ʃ œː ʃ ŋ χ d͡ʒ ɫ"),  # ky, uz
        ('u"_ɪ^ ju', "ʉ ɪ j u"),  # ru
        ("s_ə- _a-_", "s ə a"),  # fr
        ("ɐ̃ʊ̃ r̝̊ ũ", "ɐ̃ ʊ̃ r̝̊ ũ"),
        ("iʲ pʲ", "i pʲ"),
        ("_ (en)", ""),
    ],
)
def test_phones_are_split_and_cleaned(transcription: str, phones: str) -> None:
    expected = tuple(unicodedata.normalize("NFC", phones).split())
    assert split_phones(transcription.replace("_", "\ue000")) == expected


@pytest.mark.parametrize("language", CLDR_LANGUAGES)
def test_phones_of_composed_sentences_are_ipa(espeak: Espeak, language: str) -> None:
    assert_clean_ipa(espeak, language, compose_sentences(language, 200, max_words=14, seed=1))


@pytest.mark.parametrize("language", LANGUAGES)
def test_phones_of_real_sentences_are_ipa(espeak: Espeak, data_root: Path, language: str) -> None:
    sentences = read_sentences(data_root / "text" / f"{language}.txt", max_words=50)
    assert_clean_ipa(espeak, language, sentences[:200])


def test_all_fifteen_languages_have_a_voice() -> None:
    assert set(LANGUAGES) <= available_languages()


def test_every_available_language_can_be_spoken(espeak: Espeak) -> None:
    available = available_languages()
    assert len(available) > 100
    assert "fo" not in available  # a voice without rules of reading
    assert all(espeak.select(plain_voice(language)) for language in sorted(available))


@pytest.mark.parametrize("language", ["hi", "kn", "my"])
def test_names_with_vowel_signs_are_sentences_too(language: str) -> None:
    assert len(compose_sentences(language, 20, max_words=14, seed=1)) == 20


def test_all_variants_exist_and_have_the_gender_we_say() -> None:
    folder = Path(espeakng_loader.get_data_path()) / "voices" / "!v"
    for gender, variants in VARIANTS.items():
        assert len(set(variants)) == len(variants)
        for variant in variants:
            assert f"gender {gender}" in (folder / variant).read_text("utf-8").lower()


@pytest.mark.parametrize("apostrophe", list("ʻʼ‘’'`"))
def test_every_apostrophe_is_read_as_part_of_its_word(espeak: Espeak, apostrophe: str) -> None:
    assert espeak.select(plain_voice("uz"))
    assert split_phones(espeak.transcribe(f"to{apostrophe}g{apostrophe}ri")) == tuple("toʁɾy")


def test_speech_does_not_depend_on_what_was_said_before(espeak: Espeak) -> None:
    sentence, voice = "cada domingo en Zaragoza", plain_voice("es")
    first = espeak.speak(sentence, voice, seed=7)
    for language in ("fr", "ru", "tt"):
        espeak.speak(sentence, plain_voice(language, "m3"), seed=3)
    assert espeak.speak(sentence, voice, seed=7) == first


def test_words_begin_where_the_sound_says(espeak: Espeak) -> None:
    """Before a comma it is silent, and the next word begins behind the silence."""
    speech = espeak.speak("Martes, Marruecos, peso chileno.", plain_voice("es"), seed=1)
    samples = np.abs(np.frombuffer(speech.pcm, "<i2")).astype(np.float64)
    assert len(speech.word_starts) == 4
    assert list(speech.word_starts) == sorted(speech.word_starts)
    silence = round(0.05 * ESPEAK_RATE_HZ)
    for start in speech.word_starts[1:3]:
        assert samples[start - silence : start].max() < 0.05 * samples.max()
        assert samples[start : start + 3 * silence].max() > 0.1 * samples.max()
    one = espeak.speak("Martes.", plain_voice("es"), seed=1)
    assert one.word_starts == (0,)


def test_voices_have_different_spectra(espeak: Espeak) -> None:
    spectra = []
    for variant in ("f2", "f5", "m3", "m7"):
        pcm = espeak.speak("cada domingo en Zaragoza", plain_voice("es", variant), seed=0).pcm
        frames = np.frombuffer(pcm, dtype=np.int16)[: len(pcm) // 1024 * 512].reshape(-1, 512)
        power = np.square(np.abs(np.fft.rfft(frames * np.hanning(512)))).mean(axis=0)
        spectra.append(10 * np.log10(power[:256].reshape(32, 8).mean(axis=1) + 1))  # (32,) dB
    distances = [
        np.sqrt(np.square(a - b).mean()) for i, a in enumerate(spectra) for b in spectra[:i]
    ]
    assert min(distances) > 1.0


def test_faster_speakers_take_less_time(espeak: Espeak) -> None:
    lengths = [
        len(espeak.speak("cada domingo en Zaragoza", Voice("es", "f2", rate, 50, 50), 0).pcm)
        for rate in (130, 160, 190)
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert 0.5 < lengths[1] / 2 / ESPEAK_RATE_HZ < 4.0


def test_a_sentence_that_cannot_be_spoken_says_why(espeak: Espeak) -> None:
    with pytest.raises(SpeechError, match="no voice zz"):
        espeak.speak("hola", plain_voice("zz"), seed=0)
    with pytest.raises(SpeechError, match="nothing to pronounce"):
        espeak.speak(" ", plain_voice("es"), seed=0)


def test_a_crash_costs_only_the_fork() -> None:
    def crash() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b"never"

    assert _run_forked(crash) == (b"", -signal.SIGKILL)
    assert _run_forked(lambda: b"alive") == (b"alive", 0)


def test_the_layout_is_that_of_common_voice(corpus: Path) -> None:
    for language in SMALL.languages:
        rows = list(rows_of(corpus / language / "validated.tsv"))
        phones = {row["path"]: row["phones"] for row in rows_of(corpus / language / "phones.tsv")}
        assert len(rows) == SMALL.sentences_per_language == len(phones)
        assert tuple(rows[0]) == synthetic.TABLE_COLUMNS
        assert len({row["client_id"] for row in rows}) == SMALL.speakers
        assert {row["gender"] for row in rows} == {"female", "male"}
        assert {row["path"] for row in rows} == {
            clip.name for clip in (corpus / language / "clips").iterdir()
        }
        assert all(phones[row["path"]] and row["locale"] == language for row in rows)


def test_clips_are_audible_and_of_plausible_length(corpus: Path) -> None:
    for language in SMALL.languages:
        for row in rows_of(corpus / language / "validated.tsv"):
            samples, rate = soundfile.read(corpus / language / "clips" / row["path"])
            assert rate == SMALL.sampling_rate and samples.ndim == 1
            assert 0.01 < np.sqrt(np.square(samples).mean()) < 0.5
            assert 0.03 < len(samples) / rate / len(row["sentence"]) < 0.25


def test_bytes_do_not_depend_on_the_number_of_processes(corpus: Path, tmp_path: Path) -> None:
    assert tree_of(synthesize(tmp_path / "again", SMALL, jobs=3)) == tree_of(corpus)


def test_an_interrupted_run_has_no_table_and_can_be_repeated(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, speak_all = tmp_path / "corpus", synthetic._speak_all

    def interrupted(*args: object) -> Iterator[synthetic.Outcome]:
        outcomes = speak_all(*args)  # type: ignore[arg-type]
        for _ in range(8):
            yield next(outcomes)
        outcomes.close()  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(synthetic, "_speak_all", interrupted)
        synthesize(out, SMALL, jobs=1)
    assert (out / "es" / "validated.tsv").exists()
    assert not (out / "ky" / "validated.tsv").exists()
    (out / "ky" / ".validated.tsv.x.part").write_text("left behind")
    assert tree_of(synthesize(out, SMALL, jobs=1)) == tree_of(corpus)


def test_a_finished_corpus_is_not_made_again(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(prompts: list[synthetic.Prompt], *_: object) -> Iterator[synthetic.Outcome]:
        assert prompts == []
        return iter(())

    monkeypatch.setattr(synthetic, "_speak_all", refuse)
    assert synthesize(corpus, SMALL, jobs=1) == corpus


def test_other_options_or_a_foreign_folder_are_refused(corpus: Path, tmp_path: Path) -> None:
    before = tree_of(corpus)
    with pytest.raises(ArborvoxError, match="other options and sentences"):
        synthesize(corpus, SyntheticOptions(SMALL.languages, 6, speakers=4, seed=1), jobs=1)
    assert tree_of(corpus) == before
    (tmp_path / "validated.tsv").write_text("precious")
    with pytest.raises(ArborvoxError, match="holds something else"):
        synthesize(tmp_path, SMALL, jobs=1)
    assert list(tmp_path.iterdir()) == [tmp_path / "validated.tsv"]


def test_sentences_of_a_text_folder_are_spoken_once_as_written(tmp_path: Path) -> None:
    sentences = {"Башҡортостан — матур ил.", "Мин «китап» уҡыйым!", "Һин ҡайҙа?"}
    (tmp_path / "ba.txt").write_text("\n".join([*sorted(sentences), "", "..."]), "utf-8")
    options = SyntheticOptions(("ba",), sentences_per_language=9, speakers=2, text=tmp_path)
    out = synthesize(tmp_path / "corpus", options, jobs=1)
    rows = list(rows_of(out / "ba" / "validated.tsv"))
    assert len(rows) == 3 and {row["sentence"] for row in rows} == sentences


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SyntheticOptions(("ba",)), r"no CLDR names for 'ba'.*--text DIR with a file ba\.txt"),
        (SyntheticOptions(("zz",)), "no voice for 'zz'"),
        (SyntheticOptions(()), "at least one of: languages"),
        (SyntheticOptions(("es",), speakers=0), "at least one of: speakers"),
        (SyntheticOptions(("es",), max_words=2), "allow more words"),
        (SyntheticOptions(("es",), sampling_rate=100), "100 Hz is too low"),
        (SyntheticOptions(("es",), text=Path("nowhere")), r"no file nowhere.es\.txt"),
    ],
)
def test_impossible_options_are_told_in_a_sentence(
    tmp_path: Path, options: SyntheticOptions, message: str
) -> None:
    with pytest.raises(ArborvoxError, match=message):
        synthesize(tmp_path / "out", options, jobs=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("module", ["espeakng_loader", "babel"])
def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ArborvoxError, match=r"arborvox\[demo\]"):
        synthesize(tmp_path / "out", SMALL, jobs=1)


def test_speakers_differ_between_languages_and_seeds() -> None:
    speakers = [
        speaker
        for language, seed in (("es", 0), ("es", 1), ("ru", 0))
        for speaker in make_speakers(language, 40, seed)
    ]
    assert len({speaker.client_id for speaker in speakers}) == 120
    assert len({speaker.voice for speaker in speakers}) == 120
    assert make_speakers("es", 40, 0) == speakers[:40]
    assert all(speaker.voice.variant in VARIANTS[speaker.gender] for speaker in speakers)


@pytest.mark.parametrize("language", CLDR_LANGUAGES)
def test_composed_sentences_are_many_distinct_and_readable(language: str) -> None:
    sentences = compose_sentences(language, 2000, max_words=14, seed=0)
    assert len(set(sentences)) == 2000
    assert all(2 <= len(sentence.split()) <= 14 for sentence in sentences)
    assert not any(char.isdigit() or char in "()\t\xa0" for char in "".join(sentences))
    assert sentences[:50] == compose_sentences(language, 50, max_words=14, seed=0)
    assert sentences[:50] != compose_sentences(language, 50, max_words=14, seed=1)


def test_text_files_give_distinct_short_sentences_with_letters(tmp_path: Path) -> None:
    path = tmp_path / "es.txt"
    path.write_bytes("\ufeffHola\tmundo.\r\nHola mundo.\n\n123\nuno dos tres cuatro\n".encode())
    assert read_sentences(path, max_words=3) == ["Hola mundo."]
    path.write_bytes(b"bien\nma\xf1ana\n")
    with pytest.raises(ArborvoxError, match=r"es\.txt, line 2: not UTF-8"):
        read_sentences(path, max_words=3)
    path.write_bytes(b"123\n")
    with pytest.raises(ArborvoxError, match="no sentence of at most 3 words"):
        read_sentences(path, max_words=3)


def test_pieces_are_distinct_runs_of_words_with_letters() -> None:
    sentences = [
        "uno dos tres cuatro",
        "uno dos tres cuatro",
        "cinco",
        "1 2 3",
        "¿seis? 7 ocho nueve",
    ]
    pieces = cut_pieces(sentences, (1, 2), random.Random(0))
    assert len(set(pieces)) == len(pieces) >= 3
    assert all(any(piece in sentence for sentence in sentences) for piece in pieces)
    assert {len(piece.split()) for piece in pieces} <= {1, 2}
    assert "cinco" in pieces and not any(piece.isdigit() for piece in pieces)
    assert pieces == cut_pieces(sentences, (1, 2), random.Random(0))
    assert cut_pieces(sentences, (9,), random.Random(0)) == [
        "uno dos tres cuatro", "cinco", "¿seis? 7 ocho nueve",
    ]  # fmt: skip


def test_pieces_of_a_text_are_spoken_and_named_in_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "es.txt").write_text(
        "uno dos tres cuatro\ncinco seis siete\n1 2 3 4 5 ya\n6 7 8 9 ya\n"
    )
    options = SyntheticOptions(("es",), 9, speakers=2, text=tmp_path, words=(2,))
    out = synthesize(tmp_path / "pieces", options, jobs=1)
    rows = list(rows_of(out / "es" / "validated.tsv"))
    assert [row["sentence"] for row in rows] == ["dos tres", "cinco seis", "9 ya"]
    assert "3 pieces, cut out of 4 sentences" in " ".join(capsys.readouterr().err.split())
    assert read_json(out / "synthetic.json")["options"]["words"] == [2]
    whole = SyntheticOptions(("es",), 9, speakers=2, text=tmp_path)
    record = read_json(synthesize(tmp_path / "whole", whole, jobs=1) / "synthetic.json")
    assert "words" not in record["options"]


def test_words_without_a_text_are_refused() -> None:
    with pytest.raises(ArborvoxError, match=r"words are pieces of a text: give text"):
        make_corpus_config({"kind": "synthetic", "words": [1]})
