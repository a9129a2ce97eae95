"""Encoders that others have trained export through the same contract as our own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

import tiny_pretrained

from arborvox.config import validate_recipe
from arborvox.export.exporting import export_onnx
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.recognizer import load
from arborvox.tokens.tokenizer import Tokenizer

UNITS = ("<eos>", "<unk>", "a", "b", "c")
