"""Encoders that others have trained: Whisper, wav2vec 2.0 and its kin."""

from arborvox.model.encoders.pretrained.encoder import PretrainedEncoder

__all__ = ["PretrainedEncoder"]
