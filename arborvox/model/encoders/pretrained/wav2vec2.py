"""wav2vec 2.0 and its kin: samples in, convolutions, Transformer layers."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from arborvox.errors import ArborvoxError
from arborvox.model.encoders.pretrained.base_model import BaseModel
from arborvox.model.encoders.pretrained.inputs import RawSamples
from arborvox.model.encoders.pretrained.network import PretrainedNetwork, build, key_bias
from arborvox.model.encoders.stack import padded_frames
from arborvox.model.kernels.dispatch import is_exported
from arborvox.model.packing import pack_linear_layers

# Parts of training that are ours to do, or that stand above the layers.
SWITCHED_OFF = {
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
    "layerdrop": 0.0,
    "add_adapter": False,
}


class Wav2Vec2Network(PretrainedNetwork):
    """wav2vec 2.0, XLS-R and MMS."""

    library_class: ClassVar[str] = "wav2vec2.modeling_wav2vec2.Wav2Vec2Model"
    config_class: ClassVar[str] = "Wav2Vec2Config"
    prefixes = ("wav2vec2.",)

    def __init__(self, base: BaseModel) -> None:
        super().__init__()
        self.width = base.count("hidden_size", 768)
        self._convolutions = _convolutions(base)
        self.frames_a_state = 1
        for _, stride in self._convolutions:
            self.frames_a_state *= stride
        if base.config.get("conv_pos_batch_norm"):
            raise ArborvoxError(
                f"{base.folder}: a batch norm over positions (conv_pos_batch_norm) would let an "
                f"utterance's neighbors into its states; choose another model."
            )
        # A norm over the whole time would let padding in: then each utterance has its own turn.
        self._norm_over_time = base.config.get("feat_extract_norm", "group") == "group"
        self._stable = bool(base.config.get("do_stable_layer_norm", False))
        self.model = build(self.library_class, self.config_class, base, **SWITCHED_OFF)
        self.model.feature_extractor._requires_grad = False  # of the samples, which nobody asks for

    @classmethod
    def make_input(cls, base: BaseModel) -> RawSamples:
        """Return samples at the model's rate, normalized where it learned them so."""
        min_samples = 1
        for kernel, stride in reversed(_convolutions(base)):
            min_samples = (min_samples - 1) * stride + kernel
        return RawSamples(
            sampling_rate=base.count("sampling_rate", 16_000, part="preprocessor"),
            normalize=bool(base.preprocessor.get("do_normalize", True)),
            min_samples=min_samples,
        )

    @property
    def layers(self) -> nn.ModuleList:
        """Return the Transformer layers."""
        layers: nn.ModuleList = self.model.encoder.layers
        return layers

    def embed(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve, project and add positions, (B, S, 1), (B,) -> (B, T', D), (B,)."""
        model = self.model
        dtype = model.encoder.layer_norm.weight.dtype
        frames = frames.masked_fill(padded_frames(frames, lens), 0.0).to(dtype)
        heard = self._convolve(frames[:, :, 0], lens)  # (B, T', C)
        for kernel, stride in self._convolutions:
            lens = torch.div(lens - kernel, stride, rounding_mode="floor") + 1
        projected = model.feature_projection(heard)
        x = projected[0] if isinstance(projected, tuple) else projected
        x = x.masked_fill(padded_frames(x, lens), 0.0)
        x = x + model.encoder.pos_conv_embed(x)
        if not self._stable:
            x = model.encoder.layer_norm(x)
        return model.encoder.dropout(x), lens

    def context(self, x: Tensor, lens: Tensor) -> object:
        """Return the bias of the keys."""
        return key_bias(lens, x)

    def run_layer(self, number: int, x: Tensor, context: object) -> Tensor:
        """Run one layer, (B, T', D) -> (B, T', D)."""
        out: Tensor = self.layers[number](x, attention_mask=context)
        return out

    def finish(self, x: Tensor) -> Tensor:
        """Normalize where the layers do not end in a norm of their own."""
        out: Tensor = self.model.encoder.layer_norm(x) if self._stable else x
        return out

    def _convolve(self, samples: Tensor, lens: Tensor) -> Tensor:
        """Run the convolutions, (B, S) -> (B, T', C)."""
        extract = self.model.feature_extractor
        if not self._norm_over_time:
            heard: Tensor = extract(samples).transpose(1, 2)
            return heard
        if is_exported():
            return _convolve_masked(extract.conv_layers, samples, lens)
        rows = zip(samples, lens.tolist(), strict=True)
        return pad_sequence(
            [extract(row[None, :length])[0].T for row, length in rows], batch_first=True
        )


def _convolve_masked(layers: nn.ModuleList, samples: Tensor, lens: Tensor) -> Tensor:
    """Run the convolutions on padded samples; the norm over time sees each one's own alone."""
    x = samples[:, None]
    for number, layer in enumerate(layers):
        x = layer.conv(x)  # type: ignore[operator]
        if number == 0:  # the one that has the norm: a group for each channel
            norm: nn.GroupNorm = layer.layer_norm  # type: ignore[assignment]
            kernel, stride = layer.conv.kernel_size[0], layer.conv.stride[0]  # type: ignore[union-attr,index]
            count = torch.div(lens - kernel, stride, rounding_mode="floor") + 1
            padding = (torch.arange(x.shape[2]) >= count[:, None])[:, None]  # (B, 1, T)
            size = count[:, None, None].to(x.dtype)
            mean = x.masked_fill(padding, 0.0).sum(dim=2, keepdim=True) / size
            away = (x - mean).masked_fill(padding, 0.0)
            variance = away.square().sum(dim=2, keepdim=True) / size
            x = away / (variance + norm.eps).sqrt() * norm.weight[:, None] + norm.bias[:, None]
        x = layer.activation(x)  # type: ignore[operator]
    return x.transpose(1, 2)


class HubertNetwork(Wav2Vec2Network):
    """HuBERT: wav2vec 2.0's network, taught in another way."""

    library_class = "hubert.modeling_hubert.HubertModel"
    config_class = "HubertConfig"
    prefixes = ("hubert.",)


@dataclass(frozen=True)
class WavLMContext:
    """What every layer of WavLM is told."""

    mask: Tensor | None  # (B, T') 1 at real states
    position_bias: Tensor  # (B·H, T', T')


class WavLMNetwork(Wav2Vec2Network):
    """WavLM: wav2vec 2.0's network with gated relative positions."""

    library_class = "wavlm.modeling_wavlm.WavLMModel"
    config_class = "WavLMConfig"
    prefixes = ("wavlm.",)

    def run_layer(self, number: int, x: Tensor, context: object) -> Tensor:
        """Run one layer, (B, T', D) -> (B, T', D)."""
        assert isinstance(context, WavLMContext)
        with warnings.catch_warnings():
            # The library's own call mixes two kinds of masks, of which torch would rather see one.
            warnings.filterwarnings("ignore", "Support for mismatched key_padding_mask")
            out: Tensor = self.layers[number](
                x, attention_mask=context.mask, position_bias=context.position_bias
            )[0]
        return out

    def pack(self) -> None:
        """Pack the feed-forward layers; attention hands its weights to torch as they are."""
        for layer in self.layers:
            pack_linear_layers(layer.feed_forward)  # type: ignore[arg-type]

    def context(self, x: Tensor, lens: Tensor) -> WavLMContext:
        """Return the mask of the keys, and the bias that the first layer makes for all."""
        B, T, _ = x.shape
        first: nn.Module = self.layers[0]
        bias = first.attention.compute_bias(T, T)  # type: ignore[union-attr,operator]
        real = ~padded_frames(x, lens)[:, :, 0]
        is_whole = x.device.type == "cpu" and not is_exported() and bool(real.all())
        mask = None if is_whole else real.long()
        return WavLMContext(mask, bias.repeat(B, 1, 1))  # (H, T', T') -> (B·H, T', T')


def _convolutions(base: BaseModel) -> list[tuple[int, int]]:
    """Return kernel and stride of each convolution over the samples."""
    kernels = base.config.get("conv_kernel", [10, 3, 3, 3, 3, 2, 2])
    strides = base.config.get("conv_stride", [5, 2, 2, 2, 2, 2, 2])
    whole = isinstance(kernels, list) and isinstance(strides, list) and len(kernels) == len(strides)
    if not whole or not all(type(n) is int and 0 < n < 1000 for n in (*kernels, *strides)):
        raise ArborvoxError(
            f'{base.folder / "config.json"}: "conv_kernel" and "conv_stride" must be lists of '
            f"whole numbers above 0, of one length."
        )
    return list(zip(kernels, strides, strict=True))
