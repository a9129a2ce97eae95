"""Decoding a test set: whole, continued after a kill, and refused where it would mix two ways."""

import errno
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest
import soundfile
import torch
from checkpoints import LETTERS, make_checkpoint
from lhotse import CutSet, MonoCut, Recording, SupervisionSegment

from arborvox.config import DecodeConfig
from arborvox.config.choices import Search, values_of
from arborvox.decode import corpus_decoding
from arborvox.decode.corpus_decoding import cut_by_length, decode_manifest, decode_with, lock_of
from arborvox.decode.engine import Engine, load_engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.errors import ArborvoxError
from arborvox.files import hold
from arborvox.manifest import Utterance
from arborvox.score.hypotheses import read_hypotheses
from arborvox.tokens.tokenizer import EOS_ID, UNK_ID

DURATIONS_S = [0.5 + 0.1875 * number for number in range(6)]
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
        samples = 0.1 * chance.normal(size=round(16000 * DURATIONS_S[number]))
        soundfile.write(path, samples.astype(np.float32), 16000)
        recording = Recording.from_file(path)
        length = recording.duration
        told = SupervisionSegment(path.stem, recording.id, 0, length, text="a b", language="x-x")
        cuts.append(MonoCut(path.stem, 0, length, 0, supervisions=[told], recording=recording))
    CutSet.from_cuts(cuts).to_file(folder / "cuts_test.jsonl.gz")
    return folder / "cuts_test.jsonl.gz"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("mode", values_of(Search))
def test_every_utterance_gets_a_line(
    run: Path, manifest: Path, tmp_path: Path, mode: Search
) -> None:
    out = tmp_path / "hyps.jsonl"
    done = decode_manifest(run, manifest, DecodeConfig(mode=mode, beam=3), out)
    header, *lines = read_lines(out)
    assert header["arborvox_hypotheses"] == 2
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
    recognize = Engine.recognize

    def noted(self: Engine, features: list[torch.Tensor]) -> list[Hypothesis]:
        calls.append(dict(self.network.clock.seconds))
        return recognize(self, features)

    monkeypatch.setattr(Engine, "recognize", noted)
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
    write, calls = corpus_decoding.write_through, []

    def die_in_the_second_batch(results: TextIO, lines: list[str]) -> None:
        calls.append(1)
        write(results, lines)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(corpus_decoding, "write_through", die_in_the_second_batch)
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


def put_other_weights(run: Path, **_: Path) -> None:
    make_checkpoint(run, seed=2)


def put_other_tokens(run: Path, **_: Path) -> None:
    make_checkpoint(run, units=(*LETTERS[:3], "b", "a", *LETTERS[5:]))


def lengthen_manifest(manifest: Path, **_: Path) -> None:
    lines = gzip.decompress(manifest.read_bytes()).decode().replace("a b", "b a")
    manifest.write_bytes(gzip.compress(lines.encode(), mtime=0))


def edit_inventory(inventory: Path, **_: Path) -> None:
    inventory.write_text("a\nb\nc\n")


def edit_language_model(lm: Path, **_: Path) -> None:
    lm.write_text(lm.read_text().replace("-0.5", "-0.6"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put_other_weights, "content of the model's weights, so"),
        (put_other_tokens, "the model's tokens"),
        (lengthen_manifest, "content of the manifest, so"),
        (edit_inventory, "content of the inventory, so"),
        (edit_language_model, "content of the language model, so"),
    ],
)
def test_nothing_is_added_when_what_it_came_from_has_changed(
    manifest: Path, tmp_path: Path, change: Callable[..., None], told: str
) -> None:
    """The same paths and settings are not enough: contents count."""
    run = make_checkpoint(tmp_path / "run")
    cuts, inventory, lm = (tmp_path / name for name in ("cuts.jsonl.gz", "units.txt", "lm.arpa"))
    cuts.write_bytes(manifest.read_bytes())
    inventory.write_text("a\nb\n")
    words = "".join(f"-0.5\t{word}\n" for word in ("<s>", "</s>", "<unk>", "a", "b"))
    lm.write_text(f"\\data\\\nngram 1=5\n\n\\1-grams:\n{words}\n\\end\\\n")
    config = DecodeConfig(mode="ctc-beam", beam=2, inventory=inventory, lm=lm)
    out = tmp_path / "hyps.jsonl"
    decode_manifest(run, cuts, config, out)
    assert decode_manifest(run, cuts, config, out).num_utterances == 0
    before = out.read_bytes()
    change(run=run, manifest=cuts, inventory=inventory, lm=lm)
    with pytest.raises(ArborvoxError, match=told):
        decode_manifest(run, cuts, config, out)
    assert out.read_bytes() == before


def test_the_same_contents_may_lie_elsewhere(run: Path, manifest: Path, tmp_path: Path) -> None:
    out, moved = tmp_path / "hyps.jsonl", tmp_path / "moved.jsonl.gz"
    decode_manifest(run, manifest, CONFIG, out)
    moved.write_bytes(manifest.read_bytes())
    assert decode_manifest(run, moved, CONFIG, out).num_utterances == 0


def test_files_of_the_first_format_are_scored_but_not_continued(
    run: Path, manifest: Path, tmp_path: Path
) -> None:
    out = tmp_path / "hyps.jsonl"
    decode_manifest(run, manifest, CONFIG, out)
    header, *lines = read_lines(out)
    del header["sha256"]
    old = [header | {"arborvox_hypotheses": 1}, *lines]
    out.write_text("".join(json.dumps(line) + "\n" for line in old))
    with pytest.raises(ArborvoxError, match="can be scored, but not continued"):
        decode_manifest(run, manifest, CONFIG, out)
    assert len(read_hypotheses(out).transcriptions) == 6


def test_an_empty_manifest_is_an_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "cuts.jsonl.gz").write_bytes(gzip.compress(b"", mtime=0))
    with pytest.raises(ArborvoxError, match="holds no utterances"):
        decode_manifest(run, tmp_path / "cuts.jsonl.gz", CONFIG, tmp_path / "hyps.jsonl")
    assert not (tmp_path / "hyps.jsonl").exists()


def test_a_model_is_used_as_it_was_tuned(manifest: Path, tmp_path: Path) -> None:
    """What nobody asks for is the recipe's; its paths and its machine are not."""
    tuned = {
        "ctc_weight": 0.5, "beam": 3, "length_bonus": 0.25, "precision": "fp32",
        "lm": "/a/strangers.arpa", "inventory": "/a/strangers.txt", "device": "cuda:7",
    }  # fmt: skip
    run = make_checkpoint(tmp_path / "run", decode=tuned)
    decode_manifest(run, manifest, DecodeConfig(), tmp_path / "a.jsonl")
    header: dict[str, Any] = read_lines(tmp_path / "a.jsonl")[0]
    assert (header["mode"], header["beam"]) == ("joint", 3)
    settings = header["settings"]
    assert (settings["ctc_weight"], settings["length_bonus"]) == (0.5, 0.25)
    assert (settings["lm"], settings["inventory"]) == (None, None)
    decode_manifest(run, manifest, DecodeConfig(ctc_weight=0.1), tmp_path / "b.jsonl")
    header = read_lines(tmp_path / "b.jsonl")[0]
    assert (header["beam"], header["settings"]["ctc_weight"]) == (3, 0.1)
    # A length bonus was tuned for the beam; whoever asks for greedy search did not ask for it.
    assert load_engine(run, DecodeConfig(mode="ctc-greedy")).config.length_bonus == 0.0
    # A whole configuration, such as `arborvox run` has, leaves nothing open.
    assert load_engine(run, DecodeConfig().whole()).config.ctc_weight == 0.3


def test_one_engine_takes_turns_with_inventories(run: Path, manifest: Path, tmp_path: Path) -> None:
    """The model is loaded once; each file is as if it had been decoded alone."""
    config = DecodeConfig(mode="joint", beam=2)
    inventories = {name: tmp_path / f"{name}.txt" for name in ("ab", "cd")}
    alone = {}
    for name, path in inventories.items():
        path.write_text("\n".join(name))
        out = tmp_path / f"alone-{name}.jsonl"
        decode_manifest(run, manifest, DecodeConfig(**{**dict(config), "inventory": path}), out)
        alone[name] = out.read_bytes()
    engine = load_engine(run, config)
    for name in ("cd", "ab"):
        engine.use_inventory(inventories[name])
        decode_with(engine, manifest, tmp_path / f"{name}.jsonl")
        assert (tmp_path / f"{name}.jsonl").read_bytes() == alone[name]
        timing = json.loads((tmp_path / f"{name}.timing.json").read_text())
        assert timing["audio_s"] == pytest.approx(sum(DURATIONS_S), abs=0.001)
    engine.use_inventory(None)
    decode_with(engine, manifest, tmp_path / "free.jsonl")
    decode_manifest(run, manifest, config.whole(), tmp_path / "free-alone.jsonl")
    assert (tmp_path / "free.jsonl").read_bytes() == (tmp_path / "free-alone.jsonl").read_bytes()


def test_a_device_that_is_not_there_is_named(run: Path) -> None:
    with pytest.raises(ArborvoxError, match="Device cuda:99 cannot be used"):
        load_engine(run, DecodeConfig(device="cuda:99"))
    assert load_engine(run, DecodeConfig(device="cpu")).network.device.type == "cpu"


def test_a_full_disk_is_named(
    run: Path, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(corpus_decoding, "write_through", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        decode_manifest(run, manifest, CONFIG, tmp_path / "hyps.jsonl")
    assert caught.value.filename == str(tmp_path / "hyps.jsonl")


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
    monkeypatch.setattr(Engine, "recognize", lambda _, features: [heard for _ in features])
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
    units = ("<eos>", "<unk>", "<x-y>", " ", "a", "b", "c", "d")
    run = make_checkpoint(tmp_path / "run", units=units, languages=("x-y",), language_tags=True)
    done = decode_manifest(run, manifest, CONFIG, tmp_path / "hyps.jsonl")  # all of it is `x-x`
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
        ({"mode": "magic"}, "mode: .*ctc-greedy.*'magic'"),
        ({"beam": 0}, "beam: .*greater than 0, not 0"),
        ({"beam": 10**9}, "beam: .*1000"),
        ({"ctc_weight": 1.5}, "ctc_weight: .*1, not 1.5"),
        ({"ctc_weight": float("nan")}, "ctc_weight"),
        ({"lm_weight": -1.0}, "lm_weight"),
        ({"length_bonus": float("inf")}, "length_bonus"),
        ({"batch_s": 0.0}, "batch_s"),
        ({"lm": 3}, "lm: a file's name"),
        ({"device": "gpu"}, "device: choose auto, cpu, cuda"),
        ({"inventory": "both"}, "inventories: both"),
        ({"inventory": "a.txt", "inventories": "corpus"}, "one of the two"),
        ({"beem": 3}, "unknown key beem; did you mean beam"),
    ],
)
def test_impossible_wishes_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        DecodeConfig(**keys)  # type: ignore[arg-type]


def test_greedy_searches_take_no_language_model(run: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"ctc-greedy cannot use a language model.*ctc-beam or"):
        load_engine(run, DecodeConfig(mode="ctc-greedy", lm=Path("x.arpa")))


def test_a_wrong_manifest_leaves_nothing_behind(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"none\.jsonl\.gz"):
        decode_manifest(run, tmp_path / "none.jsonl.gz", DecodeConfig(), tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


def test_two_do_not_write_the_same_file(run: Path, manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "hyps.jsonl"
    with hold(lock_of(out), ""), pytest.raises(ArborvoxError, match="is writing"):
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
