"""w2v-BERT 2.0: filter banks in, Conformer layers."""

from dataclasses import dataclass

from torch import Tensor, nn

from arborvox.model.encoders.pretrained.base_model import BaseModel
from arborvox.model.encoders.pretrained.inputs import StackedFilterBanks
from arborvox.model.encoders.pretrained.network import PretrainedNetwork, build, key_bias
from arborvox.model.encoders.pretrained.wav2vec2 import SWITCHED_OFF
from arborvox.model.encoders.stack import padded_frames


@dataclass(frozen=True)
class LayerContext:
    """What every layer is told."""

    bias: Tensor | None  # (B, 1, 1, T')
    real: Tensor  # (B, T') true at real states
    positions: Tensor | None


class W2vBertNetwork(PretrainedNetwork):
    """w2v-BERT 2.0; a state stands for one of its stacked frames."""

    prefixes = ("wav2vec2_bert.",)
    frames_a_state = 1

    def __init__(self, base: BaseModel) -> None:
        super().__init__()
        self.width = base.count("hidden_size", 1024)
        self.model = build(
            "wav2vec2_bert.modeling_wav2vec2_bert.Wav2Vec2BertModel",
            "Wav2Vec2BertConfig",
            base,
            use_intermediate_ffn_before_adapter=False,
            **SWITCHED_OFF,
        )

    @classmethod
    def make_input(cls, base: BaseModel) -> StackedFilterBanks:
        """Return the filter banks of the model's own feature extractor."""
        return StackedFilterBanks(
            num_mels=base.count("num_mel_bins", 80, part="preprocessor"),
            sampling_rate=base.count("sampling_rate", 16_000, part="preprocessor"),
            stride=base.count("stride", 2, part="preprocessor"),
        )

    @property
    def layers(self) -> nn.ModuleList:
        """Return the Conformer layers."""
        layers: nn.ModuleList = self.model.encoder.layers
        return layers

    def embed(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Project, (B, T, M), (B,) -> (B, T, D), (B,)."""
        encoder = self.model.encoder
        padding = padded_frames(frames, lens)
        dtype = self.model.feature_projection.layer_norm.weight.dtype
        x, _ = self.model.feature_projection(frames.masked_fill(padding, 0.0).to(dtype))
        return encoder.dropout(x.masked_fill(padding, 0.0)), lens

    def context(self, x: Tensor, lens: Tensor) -> LayerContext:
        """Return the bias of the keys, which states are real, and the positions."""
        embed_positions = self.model.encoder.embed_positions
        positions = None if embed_positions is None else embed_positions(x)
        return LayerContext(key_bias(lens, x), ~padded_frames(x, lens)[:, :, 0], positions)

    def run_layer(self, number: int, x: Tensor, context: LayerContext) -> Tensor:
        """Run one layer, (B, T, D) -> (B, T, D)."""
        out: Tensor = self.layers[number](
            x,
            attention_mask=context.bias,
            relative_position_embeddings=context.positions,
            conv_attention_mask=context.real,
        )
        return out
