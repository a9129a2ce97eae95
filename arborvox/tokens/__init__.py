"""Units of writing and sound as numbers: characters, phones or BPE pieces."""

from arborvox.tokens.building import build_tokenizer, count_tokens
from arborvox.tokens.corpus import Sentence, TextCorpus
from arborvox.tokens.tokenizer import UNIT_KINDS, Tokenizer
from arborvox.vocabulary import EOS_ID, PADDING_ID, UNK_ID

__all__ = [
    "EOS_ID",
    "PADDING_ID",
    "UNIT_KINDS",
    "UNK_ID",
    "Sentence",
    "TextCorpus",
    "Tokenizer",
    "build_tokenizer",
    "count_tokens",
]
