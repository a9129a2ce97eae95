"""Tiny pretrained models of every family, with random weights, as `transformers` saves them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.model.asr import ASR

WIDTH = 16
RATE = 16_000
SHARED = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "layerdrop": 0.0,
}
SAMPLES = {
    **SHARED,
    "conv_dim": [8, 8, 8],
    "conv_kernel": [10, 8, 4],
    "conv_stride": [5, 8, 4],  # 160 samples to a state
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
STABLE = {**SAMPLES, "feat_extract_norm": "layer", "do_stable_layer_norm": True}

# name -> config class, model class, settings
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "whisper": (
        "WhisperConfig",
        "WhisperModel",
        {
            "d_model": WIDTH,
            "encoder_layers": 3,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_layers": 1,
            "decoder_attention_heads": 2,
            "decoder_ffn_dim": 24,
            "num_mel_bins": 80,
            "max_source_positions": 50,
            "vocab_size": 20,
            "pad_token_id": 0,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "decoder_start_token_id": 0,
        },
    ),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2Model", SAMPLES),
    "xls-r": ("Wav2Vec2Config", "Wav2Vec2Model", STABLE),
    "hubert": ("HubertConfig", "HubertModel", STABLE),
    "wavlm": ("WavLMConfig", "WavLMModel", {**SAMPLES, "num_buckets": 20}),
    "wavlm-large": ("WavLMConfig", "WavLMModel", {**STABLE, "num_buckets": 20}),
    "w2v-bert": (
        "Wav2Vec2BertConfig",
        "Wav2Vec2BertModel",
        {
            **SHARED,
            "feature_projection_input_dim": 160,
            "conv_depthwise_kernel_size": 5,
            "left_max_position_embeddings": 8,
            "right_max_position_embeddings": 4,
        },
    ),
}


def make_model(name: str) -> Any:
    """Build a model with seeded weights."""
    config_class, model_class, settings = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = getattr(transformers, config_class)(**settings)
        model = getattr(transformers, model_class)(config).eval()
        # Fresh weights are so small that layers hardly differ from doing nothing.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.3)
    return model


def save_model(name: str, folder: Path) -> Path:
    """Write a model as it would be published."""
    make_model(name).save_pretrained(folder)
    extractor = {
        "whisper": "WhisperFeatureExtractor",
        "w2v-bert": "SeamlessM4TFeatureExtractor",
    }.get(name, "Wav2Vec2FeatureExtractor")
    getattr(transformers, extractor)().save_pretrained(folder)
    (folder / "README.md").write_text(
        "---\nlicense: apache-2.0\nlanguage:\n- fi\n- sw\n---\n# Made up\n", encoding="utf-8"
    )
    return folder


def make_asr(folder: Path, **keys: Any) -> ASR:
    """Build a network on a pretrained model and take its weights."""
    settings = {"size": "tiny", "output": "softmax", "encoder": "pretrained", **keys}
    config = ModelConfig.model_validate({**settings, "pretrained": str(folder)})
    torch.manual_seed(2)
    model = ASR(config, FeaturesConfig(), 7, None).eval()
    model.encoder.load_start()
    return model


def speech(seconds: float, seed: int = 0) -> np.ndarray:
    """Return noise that swells and fades."""
    count = int(seconds * RATE)
    swell = np.sin(np.linspace(0.0, 9.0, count)) ** 2
    return (np.random.default_rng(seed).normal(size=count) * swell * 0.1).astype(np.float32)
