"""Pretrained encoders: their states are `transformers`' own, alone and in a batch."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

pytest.importorskip("transformers")

import transformers
from tiny_pretrained import MODELS, RATE, WIDTH, make_asr, make_model, save_model, speech

from arborvox.config import FeaturesConfig, Recipe
from arborvox.errors import ArborvoxError
from arborvox.model.checkpoint import load_checkpoint, save_checkpoint
from arborvox.model.encoders import make_input
from arborvox.model.encoders.pretrained.attention import BLOCK_CELLS, attend_in_blocks
from arborvox.model.encoders.pretrained.encoder import _join_neighbors
from arborvox.model.encoders.pretrained.inputs import WhisperMel, slaney_bands
from arborvox.model.encoders.pretrained.whisper import SILENCE_BELOW
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree

# Whisper too as it hears the silence that it was taught with.
HEARD = [*((name, "none") for name in MODELS), ("whisper", "as-taught")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for every model, made once."""
    root = tmp_path_factory.mktemp("models")
    return {name: save_model(name, root / name) for name in MODELS}


def own_states(name: str, samples: np.ndarray, folder: Path) -> list[Tensor]:
    """Return all hidden states as `transformers` computes them, (T', D) each."""
    model = make_model(name)
    with torch.no_grad():
        if name == "whisper":
            extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
            bands = torch.from_numpy(extractor._np_extract_fbank_features(samples[None], "cpu"))
            # Its code insists on its longest length; its layers do not.
            encoder = model.encoder
            x = functional.gelu(encoder.conv2(functional.gelu(encoder.conv1(bands.float()))))
            x = x.transpose(1, 2)
            states = [x := x + encoder.embed_positions.weight[: x.shape[1]]]
            states += [x := layer(x, None) for layer in encoder.layers]
            states[-1] = encoder.layer_norm(x)
        else:
            extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
            inputs = extractor(samples, sampling_rate=RATE, return_tensors="pt")
            states = list(model(**inputs, output_hidden_states=True).hidden_states)
            states[-1] = model(**inputs).last_hidden_state
            if name == "w2v-bert":  # a frame without a partner is masked
                states = [state[:, : int(inputs.attention_mask.sum())] for state in states]
    return [state[0] for state in states]


@pytest.mark.parametrize("name", MODELS)
def test_states_are_those_of_transformers(folders: dict[str, Path], name: str) -> None:
    samples = speech(0.83)
    encoder = make_asr(folders[name], layers="mixture").encoder
    frames = encoder.input(samples)
    with torch.no_grad():
        states, lens = encoder.frozen_states(frames[None], torch.tensor([len(frames)]))
    expected = own_states(name, samples, folders[name])
    found = states[0].unflatten(-1, (len(expected), WIDTH)).unbind(1)
    assert int(lens) == len(expected[0])
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        normed = functional.layer_norm(theirs, theirs.shape[-1:])
        torch.testing.assert_close(ours, normed, rtol=0, atol=1e-4, msg=f"state {number}")


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize(("name", "silence"), HEARD)
def test_batch_changes_nothing(
    folders: dict[str, Path], name: str, silence: str, stride: int
) -> None:
    """Alone or beside others, with garbage in the padding; Whisper's windows included."""
    model = make_asr(folders[name], stride=stride, silence=silence)
    pieces = [model.encoder.input(speech(s, i)) for i, s in enumerate((0.9, 0.03, 2.3, 0.4))]
    lens = torch.tensor([len(piece) for piece in pieces])
    padded = pad_sequence(pieces, batch_first=True, padding_value=1e4)
    with torch.no_grad():
        states, state_lens = model.encode(padded, lens)
        for row, piece in enumerate(pieces):
            alone, alone_lens = model.encode(piece[None], lens[row : row + 1])
            assert int(alone_lens) == int(state_lens[row]) >= 1
            torch.testing.assert_close(
                states[row, : int(state_lens[row])], alone[0], rtol=0, atol=2e-5
            )
    seconds = state_lens * model.encoder.state_s
    torch.testing.assert_close(seconds[2].item(), 2.3, rtol=0, atol=0.05 * stride)


@pytest.mark.parametrize("freeze", ["all", 1, 2])
@pytest.mark.parametrize(("name", "silence"), HEARD)
def test_layers_that_learn_stand_on_kept_states_of_those_that_do_not(
    folders: dict[str, Path], name: str, silence: str, freeze: str | int
) -> None:
    """The same states come out, Whisper's windows included; and only what learns has gradients."""
    heard, given = (
        make_asr(folders[name], freeze=freeze, layers=[1, 2, 3], silence=silence).encoder
        for _ in range(2)
    )
    pieces = [heard.input(speech(s, i)) for i, s in enumerate((0.9, 2.3, 0.4))]
    lens = torch.tensor([len(piece) for piece in pieces])
    frames = pad_sequence(pieces, batch_first=True)
    expected, expected_lens, _ = heard(frames, lens)
    with torch.no_grad():
        kept = [heard.frozen_states(piece[None], lens[i : i + 1]) for i, piece in enumerate(pieces)]
    assert heard.states_input is not None
    assert all(states.shape[-1] == heard.states_input.width for states, _ in kept)
    given.take_states()
    kept_lens = torch.cat([state_lens for _, state_lens in kept])
    found, found_lens, _ = given(
        pad_sequence([states[0] for states, _ in kept], batch_first=True), kept_lens
    )
    assert found_lens.tolist() == expected_lens.tolist()
    for row, length in enumerate(found_lens.tolist()):
        torch.testing.assert_close(found[row, :length], expected[row, :length], rtol=0, atol=2e-5)
    found.sum().backward()
    learning = [number for number, layer in enumerate(given.network.layers) if _has_gradient(layer)]
    assert learning == ([] if freeze == "all" else list(range(int(freeze), 3)))


def _has_gradient(layer: torch.nn.Module) -> bool:
    return any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in layer.parameters())


def test_states_are_named_by_what_does_not_learn(folders: dict[str, Path]) -> None:
    keys = []
    for changed in (None, 0, 2):  # a layer that rests, one that learns
        encoder = make_asr(folders["whisper"], freeze=1, layers="last").encoder
        if changed is not None:
            with torch.no_grad():
                next(encoder.network.layers[changed].parameters()).add_(1.0)
        assert encoder.states_input is not None
        keys.append(encoder.states_input.key)
    assert keys[0] == keys[2] != keys[1]
    assert make_asr(folders["whisper"], freeze="none").encoder.states_input is None


@pytest.mark.parametrize("num_states", [1, 5, 26])
def test_silence_in_summary_is_near_the_silence_itself(
    folders: dict[str, Path], num_states: int
) -> None:
    """And the same where each state of the summary stands for one: 26 + 16 + 8 are all 50."""
    encoder = make_asr(folders["whisper"], layers="last", silence="as-taught").encoder
    plain = make_asr(folders["whisper"], layers="last").encoder
    frames = encoder.input(speech(2 * num_states / 100))
    lens = torch.tensor([len(frames)])
    silence = frames.max() - SILENCE_BELOW
    whole = functional.pad(frames, (0, 0, 0, 120 - len(frames)), value=float(silence))
    network = plain.network
    with torch.no_grad():
        found, found_lens = encoder.frozen_states(frames[None], lens)
        short, _ = plain.frozen_states(frames[None], lens)
        # Longer than its positions hold, so that its end is as silent as the rest.
        x = network._convolve(whole[None], torch.tensor([120]))[:, :50]
        x = x + network.model.embed_positions.weight
        for number in range(3):
            x = network.run_layer(number, x, None)
        wanted = functional.layer_norm(network.finish(x), (WIDTH,))[0, :num_states]
    assert int(found_lens) == num_states
    error = (found[0, :num_states] - wanted).abs().max()
    if num_states == 26:
        assert error < 1e-5
    assert error < 0.5 * (short[0] - wanted).abs().max()


def test_silence_is_heard_where_a_family_was_taught_with_it(folders: dict[str, Path]) -> None:
    heard = {
        name: make_asr(folders[name], silence="as-taught").encoder.network.num_silent
        for name in MODELS
    }
    assert heard.pop("whisper") > 0
    assert set(heard.values()) == {0}
    keys = set()
    for silence in ("none", "as-taught"):
        states = make_asr(folders["whisper"], silence=silence).encoder.states_input
        assert states is not None
        keys.add(states.key)
    assert len(keys) == 2  # kept states of the one are no states of the other


def test_joined_states_stand_side_by_side_and_the_last_is_filled_up() -> None:
    states = torch.arange(1.0, 11.0).view(1, 5, 2).repeat(2, 1, 1)
    joined, lens = _join_neighbors(states, torch.tensor([5, 2]), 3)
    assert lens.tolist() == [2, 1]
    assert joined[0].tolist() == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 0, 0]]
    assert joined[1, 0].tolist() == [1, 2, 3, 4, 0, 0]


def test_whisper_bands_are_its_own_extractors(folders: dict[str, Path]) -> None:
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folders["whisper"])
    take = make_input(make_asr(folders["whisper"]).config, FeaturesConfig())
    assert isinstance(take, WhisperMel)
    np.testing.assert_allclose(
        slaney_bands(80, 201, RATE), np.asarray(extractor.mel_filters).T, atol=1e-7
    )
    for seconds in (0.05, 1.0, 3.7):
        samples = speech(seconds)
        theirs = extractor._np_extract_fbank_features(samples[None], "cpu")[0].T
        np.testing.assert_allclose(take(samples).numpy(), theirs, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "silence"),
    [("whisper", "none"), ("whisper", "as-taught"), ("wav2vec2", "none"), ("w2v-bert", "none")],
)
def test_shortest_sound_gives_a_state(folders: dict[str, Path], name: str, silence: str) -> None:
    model = make_asr(folders[name], silence=silence)
    for samples in (speech(0.0001), np.zeros(800, np.float32)):
        frames = model.encoder.input(samples)
        assert len(frames) >= model.encoder.input.min_frames
        states, lens = model.encode(frames[None], torch.tensor([len(frames)]))
        assert int(lens) >= 1
        assert torch.isfinite(states).all()


@pytest.mark.parametrize(
    ("freeze", "learning"),
    [("all", set()), (1, {1, 2}), (3, set()), ("none", {0, 1, 2})],
)
def test_freeze_says_what_learns(
    folders: dict[str, Path], freeze: str | int, learning: set[int]
) -> None:
    encoder = make_asr(folders["xls-r"], freeze=freeze).encoder
    layers = encoder.network.layers
    found = {i for i in range(3) if any(p.requires_grad for p in layers[i].parameters())}
    assert found == learning
    below = encoder.network.model.feature_extractor.parameters()
    assert any(p.requires_grad for p in below) == (freeze == "none")
    assert bool(encoder.given_parameters()) == bool(learning)


def test_layers_choose_what_is_read(folders: dict[str, Path]) -> None:
    folder = folders["xls-r"]
    assert make_asr(folder, layers="last").encoder.chosen == (3,)
    assert make_asr(folder, layers="upper").encoder.chosen == (1, 2, 3)
    assert make_asr(folder, layers="mixture").encoder.chosen == (0, 1, 2, 3)
    assert make_asr(folder, layers=[2, 1]).encoder.chosen == (1, 2)
    with pytest.raises(ArborvoxError, match="no layer 4"):
        make_asr(folder, layers=[4])


@pytest.mark.parametrize("name", MODELS)
def test_checkpoint_is_whole(
    folders: dict[str, Path],
    name: str,
    tmp_path: Path,
    tokenizer: Tokenizer,
    tree: CodeTree,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It loads where the model it was made from is gone, and asks no network."""
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    folder = save_model(name, tmp_path / "base")
    model = make_asr(folder)
    recipe = Recipe.model_validate({"model": model.config, "name": "test"})
    save_checkpoint(tmp_path / "saved", model, recipe, tokenizer, None)
    folder.rename(tmp_path / "gone")
    loaded = load_checkpoint(tmp_path / "saved")
    frames = model.encoder.input(speech(0.5))
    assert torch.equal(loaded.model.encoder.input(speech(0.5)), frames)
    lens = torch.tensor([len(frames)])
    with torch.no_grad():
        assert torch.equal(
            loaded.model.encode(frames[None], lens)[0], model.encode(frames[None], lens)[0]
        )
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert str(folder) in card
    assert "| Base model's license | apache-2.0 |" in card
    assert "| Base model's languages | fi, sw |" in card


def test_half_precision_is_near(folders: dict[str, Path]) -> None:
    for name in MODELS:
        model = make_asr(folders[name])
        frames = model.encoder.input(speech(0.6))
        lens = torch.tensor([len(frames)])
        with torch.no_grad():
            exact = model.encode(frames[None], lens)[0]
            model.encoder.bfloat16()
            rough = model.encode(frames[None], lens)[0]
            model.encoder.pack()
            packed = model.encode(frames[None], lens)[0]
        torch.testing.assert_close(packed, rough, rtol=0, atol=0.05)
        assert rough.dtype == torch.bfloat16
        for near in (rough, packed):
            assert float((near.float() - exact).abs().mean()) < 0.02, name


@pytest.mark.parametrize("freeze", ["all", 2])
@pytest.mark.parametrize(("name", "silence"), HEARD)
def test_an_encoder_laid_out_for_the_processor_gives_the_same_states(
    folders: dict[str, Path], name: str, silence: str, freeze: str | int
) -> None:
    """By fewer products, and of silence no more than is heard; alone, in a batch, in windows."""
    encoder = make_asr(folders[name], layers=[0, 1, 3], silence=silence, freeze=freeze).encoder
    pieces = [encoder.input(speech(s, i)) for i, s in enumerate((0.9, 0.03, 2.3, 0.4))]
    lens = torch.tensor([len(piece) for piece in pieces])
    batches = [(pad_sequence(pieces, batch_first=True, padding_value=1e4), lens)]
    batches += [(piece[None], lens[i : i + 1]) for i, piece in enumerate(pieces)]
    with torch.no_grad():
        wanted = [encoder.frozen_states(*batch) for batch in batches]
        encoder.pack()
        found = [encoder.frozen_states(*batch) for batch in batches]
    for (ours, our_lens), (theirs, their_lens) in zip(found, wanted, strict=True):
        assert our_lens.tolist() == their_lens.tolist()
        for row, length in enumerate(our_lens.tolist()):
            torch.testing.assert_close(
                ours[row, :length], theirs[row, :length], rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("freeze", ["all", 2])
@pytest.mark.parametrize(("name", "silence"), HEARD)
def test_states_to_keep_are_the_same_in_any_company(
    folders: dict[str, Path], name: str, silence: str, freeze: str | int
) -> None:
    """To the last bit, as an interrupted run has other company; and they are an utterance's own."""
    encoder = make_asr(folders[name], layers=[0, 1, 3], silence=silence, freeze=freeze).encoder
    seconds = (0.9, 0.03, 0.4, 0.41, 0.9)
    pieces = [encoder.input(speech(s, i)) for i, s in enumerate(seconds)]
    with torch.no_grad():
        wanted = encoder.frozen_states_of_each(pieces)  # one by one
        rough = copy.deepcopy(encoder).bfloat16()
        encoder.pack()
        exact = encoder.frozen_states_of_each(pieces)
        rough.pack()
        together = rough.frozen_states_of_each(pieces)
        moved = [*rough.frozen_states_of_each(pieces[3:]), *rough.frozen_states_of_each(pieces[:3])]
        alone = [rough.frozen_states_of_each([piece])[0] for piece in pieces]
        longest = encoder.input(speech(2.3))  # windows, where there are any
        beside_longest = rough.frozen_states_of_each([longest, pieces[0]])
        longest_alone = rough.frozen_states_of_each([longest])
    for found, own in zip(beside_longest, (*longest_alone, alone[0]), strict=True):
        assert torch.equal(found, own)
    for ours, theirs in zip(exact, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    for number, states in enumerate(together):
        assert torch.equal(states, alone[number])
        assert torch.equal(states, moved[(number + 2) % len(pieces)])
        assert states.shape == wanted[number].shape


class Listener(torch.nn.Module):
    """What the library hands to attention beside the numbers."""

    is_causal = False


@pytest.mark.parametrize("num_frames", [1, 7, 300, 800])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_in_blocks_is_attention(num_frames: int, dtype: torch.dtype) -> None:
    """In blocks of many rows, of some, and of one."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, num_frames, 16, dtype=dtype) for _ in range(3))
    assert 6 * 300**2 > BLOCK_CELLS > 300**2
    found, weights = attend_in_blocks(Listener(), query, key, value, None, scaling=0.25)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *(x.float() for x in (query, key, value)), scale=0.25
    )
    close = {"rtol": 0.0, "atol": 1e-6 if dtype == torch.float32 else 0.02}
    torch.testing.assert_close(found.float(), wanted.transpose(1, 2), **close)  # type: ignore[arg-type]
    assert weights is None


def test_attention_in_blocks_hears_keys_as_loud_as_their_bias_says() -> None:
    """None of the padding, and a key twice for the logarithm of two."""
    query, key, value = (torch.randn(2, 3, 5, 8) for _ in range(3))
    bias = torch.zeros(2, 1, 1, 5)
    bias[1, ..., 3:] = float("-inf")
    found, _ = attend_in_blocks(Listener(), query, key, value, bias)
    alone, _ = attend_in_blocks(Listener(), query[1:], key[1:, :, :3], value[1:, :, :3], None)
    torch.testing.assert_close(found[1:], alone, rtol=0, atol=1e-6)
    bias[0, ..., 4] = math.log(2.0)
    found, _ = attend_in_blocks(Listener(), query, key, value, bias)
    twice = torch.tensor([0, 1, 2, 3, 4, 4])
    wanted, _ = attend_in_blocks(
        Listener(), query[:1], key[:1, :, twice], value[:1, :, twice], None
    )
    torch.testing.assert_close(found[:1], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("num_frames", [1, 7, 300, 800])
def test_attention_that_learns_has_the_gradients_of_attention(num_frames: int) -> None:
    """In blocks of many rows, of some, and of one; padding neither speaks nor learns."""
    torch.manual_seed(0)
    parts = [torch.randn(2, 3, num_frames, 16).bfloat16() for _ in range(4)]
    bias = torch.zeros(2, 1, 1, num_frames, dtype=torch.bfloat16)
    bias[1, ..., 1 + num_frames // 2 :] = float("-inf")
    query, key, value = (part.clone().requires_grad_() for part in parts[:3])
    found, _ = attend_in_blocks(Listener(), query, key, value, bias, scaling=0.25, dropout=0.0)
    assert found.grad_fn is not None and "LearningAttention" in _functions_behind(found)
    grads = torch.autograd.grad(found, (query, key, value), parts[3].transpose(1, 2))
    exact = [part.float().requires_grad_() for part in parts[:3]]
    wanted = functional.scaled_dot_product_attention(*exact, attn_mask=bias.float(), scale=0.25)
    for ours, theirs in zip(
        (found.transpose(1, 2), *grads),
        (wanted, *torch.autograd.grad(wanted, exact, parts[3].float())),
        strict=True,
    ):
        difference = (ours.float() - theirs).norm()
        assert float(difference.detach()) < 0.01 * float(theirs.detach().norm()) + 1e-6
    assert not grads[1][1, :, 1 + num_frames // 2 :].any()


def _functions_behind(found: Tensor) -> str:
    """Name what a result was computed by, the last first."""
    names, function = [], found.grad_fn
    while function is not None:
        names.append(function.name())
        function = function.next_functions[0][0] if function.next_functions else None
    return " ".join(names)


def test_attention_that_drops_weights_is_left_to_the_library() -> None:
    query, key, value = (torch.randn(1, 2, 4, 8).bfloat16().requires_grad_() for _ in range(3))
    found, _ = attend_in_blocks(Listener(), query, key, value, None, dropout=0.5)
    assert "LearningAttention" not in _functions_behind(found)


def test_attention_in_blocks_leaves_masks_of_single_queries_to_the_library() -> None:
    query, key, value = (torch.randn(2, 3, 5, 8) for _ in range(3))
    mask = torch.zeros(2, 1, 5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    found, _ = attend_in_blocks(Listener(), query, key, value, mask)
    wanted = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(found, wanted.transpose(1, 2), rtol=0, atol=1e-6)
