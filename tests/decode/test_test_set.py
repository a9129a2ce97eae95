"""Decoding a test set: whole, continued after a kill, and refused where it would mix two ways."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from checkpoints import make_checkpoint
from lhotse import CutSet, MonoCut, Recording, SupervisionSegment

from arborvox.decode import test_set
from arborvox.decode.engine import MODES, DecodeConfig, Engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.test_set import cut_by_length, decode_manifest
from arborvox.errors import ArborvoxError
from arborvox.files import hold
from arborvox.manifest import Utterance
from arborvox.score.hypotheses import read_hypotheses
from arborvox.tokens.tokenizer import EOS_ID, UNK_ID

CONFIG = DecodeConfig(mode="ctc-greedy", batch_s=2.5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("model") / "run")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    chance = np.random.default_rng(0)
    cuts = []
    for number in range(6):
        path = folder / f"u{number}.wav"
        samples = 0.1 * chance.normal(size=16000 // 2 + 3000 * number)
        soundfile.write(path, samples.astype(np.float32), 16000)
        recording = Recording.from_file(path)
        length = recording.duration
        told = SupervisionSegment(path.stem, recording.id, 0, length, text="a b", language="x-x")
        cuts.append(MonoCut(path.stem, 0, length, 0, supervisions=[told], recording=recording))
    CutSet.from_cuts(cuts).to_file(folder / "cuts_test.jsonl.gz")
    return folder / "cuts_test.jsonl.gz"


def read_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("mode", MODES)
def test_every_utterance_gets_a_line(run: Path, manifest: Path, tmp_path: Path, mode: str) -> None:
    out = tmp_path / "hyps.jsonl"
    done = decode_manifest(run, manifest, DecodeConfig(mode=mode, beam=3), out)
    header, *lines = read_lines(out)
    assert header["arborvox_hypotheses"] == 1
    assert header["mode"] == mode
    assert header["unit"] == "char"
    assert sorted(str(line["id"]) for line in lines) == [f"u{n}" for n in range(6)]
    for line in lines:
        assert line["reference"] == "a b"
        tokens, confidences = line["tokens"], line["confidences"]
        assert isinstance(tokens, list)
        assert isinstance(confidences, list)
        assert len(tokens) == len(confidences)
        assert line["text"] == "".join(tokens).replace("<unk>", "\ufffd")
    timing = json.loads((tmp_path / "hyps.timing.json").read_text())
    assert set(timing["seconds"]) == {"features", "encoder", "decoder", "output", "search"}
    assert done.rtf["total"] == pytest.approx(sum(timing["rtf"].values()) / 2, rel=0.01)


def test_the_rehearsal_costs_nothing_that_is_told(
    run: Path, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling happens before the clock starts, and leaves nothing behind."""
    calls: list[dict[str, float]] = []
    recognise = Engine.recognise

    def noted(self: Engine, features: list[torch.Tensor]) -> list[Hypothesis]:
        calls.append(dict(self.network.clock.seconds))
        return recognise(self, features)

    monkeypatch.setattr(Engine, "recognise", noted)
    decode_manifest(run, manifest, CONFIG, tmp_path / "hyps.jsonl")
    rehearsal, first, second, *_ = calls
    assert rehearsal["encoder"] == 0.0 and first["encoder"] == first["search"] == 0.0
    assert second["encoder"] > 0.0
    assert len(read_lines(tmp_path / "hyps.jsonl")) == 7
    number = len(calls)
    decode_manifest(run, manifest, CONFIG, tmp_path / "hyps.jsonl")
    assert len(calls) == number  # nothing left to decode, nothing to rehearse


def test_continued_results_equal_those_of_one_go(
    run: Path, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    decode_manifest(run, manifest, CONFIG, whole)
    flush, calls = test_set._flush, []

    def die_in_the_second_batch(results: object) -> None:
        calls.append(1)
        flush(results)  # type: ignore[arg-type]
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(test_set, "_flush", die_in_the_second_batch)
        decode_manifest(run, manifest, CONFIG, broken)
    cut = broken.read_bytes()[:-7]  # as if killed in the middle of a line
    broken.write_bytes(cut)
    num_kept = len(cut.splitlines()) - 2
    assert 0 < num_kept < 6
    done = decode_manifest(run, manifest, CONFIG, broken)
    assert done.num_utterances == 6 - num_kept

    def texts(path: Path) -> dict[object, object]:
        return {line["id"]: line["text"] for line in read_lines(path)[1:]}

    assert texts(broken) == texts(whole)


def test_nothing_is_decoded_twice(run: Path, manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "hyps.jsonl"
    decode_manifest(run, manifest, CONFIG, out)
    before = out.read_bytes()
    assert decode_manifest(run, manifest, CONFIG, out).num_utterances == 0
    assert out.read_bytes() == before


def test_other_settings_are_not_mixed_in(run: Path, manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "hyps.jsonl"
    decode_manifest(run, manifest, CONFIG, out)
    with pytest.raises(ArborvoxError, match="begun with mode 'ctc-greedy', not 'ctc-beam'"):
        decode_manifest(run, manifest, DecodeConfig(mode="ctc-beam"), out)


@pytest.mark.parametrize("text", ["hello\n", "[1]\n", "no end of line"])
def test_other_files_are_left_alone(run: Path, manifest: Path, tmp_path: Path, text: str) -> None:
    out = tmp_path / "notes.txt"
    out.write_text(text)
    with pytest.raises(ArborvoxError, match="choose another --out"):
        decode_manifest(run, manifest, CONFIG, out)
    assert out.read_text() == text


def test_unreadable_audio_costs_only_itself(
    run: Path, manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audio = manifest.parent / "u3.wav"
    sound = audio.read_bytes()
    audio.write_text("not a sound")
    try:
        done = decode_manifest(run, manifest, CONFIG, tmp_path / "hyps.jsonl")
    finally:
        audio.write_bytes(sound)
    assert (done.num_utterances, done.num_failed) == (5, 1)
    assert "u3: not audio" in capsys.readouterr().err


@pytest.mark.parametrize("unit", ["char", "phone"])
def test_decode_and_score_count_the_same_unknown_units(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    units = ("<eos>", "<unk>", "<x-x>", "a", "b")
    run = make_checkpoint(tmp_path / "run", unit=unit, units=units, language_tags=True)
    tokens = (2, UNK_ID, 3, EOS_ID, UNK_ID, UNK_ID, 4)  # of the special ones only <unk> is unknown
    heard = Hypothesis(tokens, -1.0, (0.5,) * len(tokens))
    monkeypatch.setattr(Engine, "recognise", lambda _, features: [heard for _ in features])
    out, bare = tmp_path / "hyps.jsonl", tmp_path / "bare.jsonl"
    decode_manifest(run, manifest, CONFIG, out)
    header, *lines = read_lines(out)
    # A file of another program does not say how many there are; its text shows them.
    texts = [{key: line[key] for key in ("id", "language", "reference", "text")} for line in lines]
    bare.write_text("".join(json.dumps(line) + "\n" for line in [header, *texts]))
    for path in (out, bare):
        counts = [heard.num_unknown for heard in read_hypotheses(path).transcriptions]
        assert counts == [3] * len(lines)


def test_a_language_that_was_never_heard_is_decoded_by_a_model_with_tags(
    manifest: Path, tmp_path: Path
) -> None:
    units = ("<eos>", "<unk>", "<yy>", " ", "a", "b", "c", "d")
    run = make_checkpoint(tmp_path / "run", units=units, languages=("yy",), language_tags=True)
    done = decode_manifest(run, manifest, CONFIG, tmp_path / "hyps.jsonl")  # all of it is `xx`
    assert done.num_utterances == 6


def test_batches_hold_utterances_of_about_one_length() -> None:
    lengths = [3.0, 1.0, 2.0, 8.0, 1.0]
    utterances = [
        Utterance(str(n), "x", "x-x", "", sampling_rate=10, num_samples=int(10 * length))
        for n, length in enumerate(lengths)
    ]
    batches = list(cut_by_length(utterances, batch_s=6.0))
    assert [[u.duration_s for u in batch] for batch in batches] == [[8.0], [3.0, 2.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"mode": "magic"}, "Unknown mode"),
        ({"beam": 0}, "at least 1"),
        ({"ctc_weight": 1.5}, r"0\.\.1"),
        ({"lm_weight": -1.0}, "LM weight"),
        ({"batch_s": 0.0}, "batch"),
        ({"mode": "ctc-greedy", "lm": Path("x.arpa")}, "cannot use a language model"),
    ],
)
def test_impossible_wishes_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        DecodeConfig(**keys)  # type: ignore[arg-type]


def test_a_wrong_manifest_leaves_nothing_behind(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"none\.jsonl\.gz"):
        decode_manifest(run, tmp_path / "none.jsonl.gz", DecodeConfig(), tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


def test_two_do_not_write_the_same_file(run: Path, manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "hyps.jsonl"
    with hold(out, ""), pytest.raises(ArborvoxError, match="is writing"):
        decode_manifest(run, manifest, DecodeConfig(mode="ctc-greedy"), out)
    assert decode_manifest(run, manifest, DecodeConfig(mode="ctc-greedy"), out).num_utterances == 6


def test_missing_branches_are_named(manifest: Path, tmp_path: Path) -> None:
    ctc = make_checkpoint(tmp_path / "ctc", decoder="none")
    with pytest.raises(ArborvoxError, match="no attention decoder, so mode joint"):
        decode_manifest(ctc, manifest, DecodeConfig(mode="joint"), tmp_path / "a.jsonl")
    attention = make_checkpoint(tmp_path / "attention", ctc_weight=0.0)
    with pytest.raises(ArborvoxError, match="no CTC branch, so mode rescoring"):
        decode_manifest(attention, manifest, DecodeConfig(mode="rescoring"), tmp_path / "b.jsonl")
    decode_manifest(attention, manifest, DecodeConfig(beam=2), tmp_path / "c.jsonl")
    assert read_lines(tmp_path / "c.jsonl")[0]["mode"] == "attention-beam"
