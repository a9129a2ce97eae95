"""The UCLA Phonetic Corpus: `<iso3>/text.txt` (utterance, then phones) and `<iso3>/audio/`."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arborvox.audio import AudioInfo
from arborvox.config import UclaCorpus
from arborvox.corpora.checks import (
    check_recordings,
    count_units,
    decodes,
    leave_unnameable,
    length_problem,
)
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.sampling import (
    DEV,
    DEV_SHARE,
    NOT_DRAWN,
    TEST,
    TRAIN,
    IntArray,
    language_rng,
)
from arborvox.corpora.writing import write_corpus
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance
from arborvox.text.codes import check_languages

# The paper's zero-shot languages, in the order of its Table 3.
PAPER_TEST_LANGUAGES = tuple("bin sbc mal kea klu aeb mak fin abk ace".split())
AUDIO_ENDINGS = (".wav", ".flac", ".WAV", ".FLAC")
# Each language's units, one a line, as the corpus brings them along.
INVENTORY = "inventory/phone.txt"
# Of the training languages, one in ten is held out with `dev: languages`.
DEV_LANGUAGE_SHARE = 0.1


def prepare_ucla(config: UclaCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn the corpus into manifests: languages to train on and languages never heard."""
    assert config.source is not None  # `prepare` asks for it
    folders = _find_languages(Path(config.source), config)
    test_languages = _test_languages(config, [folder.name for folder in folders])
    skipped: list[Skipped] = []
    listed = [row for folder in folders for row in _read_language(folder, skipped)]
    paths = [audio for _, _, audio, _ in listed]
    results = check_recordings(paths, config, decode=decodes(config, len(paths)), jobs=jobs)
    utterances = []
    for (language, identity, audio, phones), result in zip(listed, results, strict=True):
        if isinstance(result, AudioInfo):
            problem = length_problem(count_units(phones, config), result.duration_s, config)
            if problem:
                skipped.append(Skipped(f"{language}/audio/{audio.name}", problem))
                continue
            utterances.append(
                Utterance(
                    id=identity,
                    audio=str(audio),
                    language=language,
                    text=phones,
                    sampling_rate=result.sampling_rate,
                    num_samples=result.num_samples,
                    num_channels=result.num_channels,
                )
            )
        else:
            skipped.append(Skipped(f"{language}/audio/{audio.name}", result))
    codes = _split(utterances, test_languages, config)
    if config.ratio is not None:
        codes = _thin_out(codes, [u.language for u in utterances], config.ratio, config.seed)
    stats = CorpusStats("ucla", config.model_dump(mode="json"))
    stats.notes["phones"] = _phone_counts(utterances, codes)
    write_corpus(stage, stats, utterances, codes, skipped)
    return stats


def ucla_inventories(config: UclaCorpus) -> dict[str, Path]:
    """Find the files of units that the corpus has, by language."""
    files = sorted(Path(config.source or "").glob(f"*/{INVENTORY}"))
    return {path.parent.parent.name: path for path in files}


def _find_languages(source: Path, config: UclaCorpus) -> list[Path]:
    if not source.is_dir():
        raise ArborvoxError(f"There is no folder {source}.")
    tables = source.resolve().glob("*/text.txt")
    folders = leave_unnameable({table.parent.name: table.parent for table in tables})
    if not folders:
        raise ArborvoxError(f"{source} is no UCLA Phonetic Corpus: no folder in it has a text.txt.")
    missing = sorted(set(config.languages or ()) - set(folders))
    if missing:
        raise ArborvoxError(f"{source} has no {', '.join(missing)}.")
    chosen = sorted(set(config.languages or folders))
    check_languages(chosen, str(source))
    return [folders[name] for name in chosen]


def _test_languages(config: UclaCorpus, languages: list[str]) -> set[str]:
    if config.test_languages is None:
        return set(PAPER_TEST_LANGUAGES) & set(languages)
    missing = sorted(set(config.test_languages) - set(languages))
    if missing:
        raise ArborvoxError(
            f"--test-languages: {', '.join(missing)} not in {config.source} or --languages."
        )
    return set(config.test_languages)


def _read_language(folder: Path, skipped: list[Skipped]) -> list[tuple[str, str, Path, str]]:
    """Return language, utterance, audio file and phones of every line that has them."""
    rows: list[tuple[str, str, Path, str]] = []
    language, seen = folder.name, set()
    audio_files = {path.name: path for path in sorted((folder / "audio").glob("*"))}
    # abk-002-000 a d͡ʒ ʃʲ
    for number, line in enumerate((folder / "text.txt").read_bytes().splitlines(), start=1):
        where = f"{language}/text.txt, line {number}"
        try:
            identity, *phones = unicodedata.normalize("NFC", line.decode()).split() or [""]
        except UnicodeDecodeError:
            skipped.append(Skipped(where, "not UTF-8"))
            continue
        found = [audio_files[identity + e] for e in AUDIO_ENDINGS if identity + e in audio_files]
        if not identity:
            continue
        if not phones:
            skipped.append(Skipped(where, "no phones"))
        elif identity in seen:
            skipped.append(Skipped(where, f"duplicate row: {identity} came before"))
        elif not found:
            skipped.append(Skipped(where, f"no such file: audio/{identity}.wav or .flac"))
        else:
            rows.append((language, identity, found[0], " ".join(phones)))
        seen.add(identity)
    named = {audio.name for _, _, audio, _ in rows}
    strays = [name for name in audio_files if name not in named and Path(name).stem not in seen]
    skipped += [Skipped(f"{language}/audio/{name}", "not in text.txt") for name in strays]
    return rows


def _split(
    utterances: list[Utterance], test_languages: set[str], config: UclaCorpus
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Test languages are never heard; development takes utterances or whole languages."""
    languages = np.array([utterance.language for utterance in utterances], dtype=object)
    codes = np.full(len(utterances), TRAIN, dtype=np.int64)
    codes[np.isin(languages, list(test_languages))] = TEST
    rng = language_rng(config.seed, "ucla/dev")
    if config.dev == "languages":
        rest = sorted(set(languages) - test_languages)
        held_out = rng.permutation(rest)[: max(round(len(rest) * DEV_LANGUAGE_SHARE), 1)]
        codes[np.isin(languages, held_out)] = DEV
        return codes
    # Training keeps every phone: an utterance that has the last example of one is not taken.
    left = Counter(p for u, c in zip(utterances, codes, strict=True) if c == TRAIN for p in _set(u))
    pool = np.flatnonzero(codes == TRAIN)
    room = round(len(pool) * DEV_SHARE)
    for index in rng.permutation(pool):
        phones = _set(utterances[index])
        if room and all(left[phone] > 1 for phone in phones):
            codes[index] = DEV
            left.subtract(phones)
            room -= 1
    return codes


def _thin_out(codes: IntArray, languages: Sequence[str], ratio: float, seed: int) -> IntArray:
    """Keep a share of each language's training utterances, at least one.

    Utterances are drawn in one order, so that what a tenth keeps a half keeps too.
    """
    thinned = codes.copy()
    for language in sorted(set(languages)):
        rows = np.flatnonzero((np.array(languages, dtype=object) == language) & (codes == TRAIN))
        order = language_rng(seed, f"ucla/ratio/{language}").permutation(rows)
        thinned[order[max(round(ratio * len(rows)), 1) :]] = NOT_DRAWN
    return thinned


def _set(utterance: Utterance) -> set[str]:
    return set(utterance.text.split())


def _phone_counts(
    utterances: list[Utterance], codes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> dict[str, int | float]:
    """Count distinct phones, and how much of the test set was never seen in training."""
    train: set[str] = set()
    test: list[str] = []
    for utterance, code in zip(utterances, codes, strict=True):
        if code == TRAIN:
            train |= _set(utterance)
        elif code == TEST:
            test += utterance.text.split()
    unseen = sum(phone not in train for phone in test)
    return {
        "train": len(train),
        "test": len(set(test)),
        "test_tokens": len(test),
        "test_tokens_unseen_in_train": unseen,
    }
