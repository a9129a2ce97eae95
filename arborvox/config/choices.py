"""Every choice that a recipe or a command offers, written once.

Sections, command-line options, messages and the tests of the implementing dicts follow from these.
Nothing but typing is imported, so that the command line and the lowest layers can use them.
"""

from typing import Literal, get_args

# What is read, and how.
CorpusKind = Literal["common-voice", "ucla", "folder", "elan", "praat", "synthetic", "shards"]
ShardFormat = Literal["shar", "webdataset"]
CorpusUnit = Literal["text", "phones"]
Split = Literal["speaker", "utterance", "official", "official-test"]
DrawnSplit = Literal["speaker", "utterance"]  # where no release brings its own
FolderSplit = Literal["auto", "speaker", "sentence", "utterance", "given"]
TierSplit = Literal["recording", "speaker", "sentence", "utterance"]
OwnSplit = Literal[FolderSplit, TierSplit]
CutBy = Literal["sentence", "speaker"]
SpeakerFrom = Literal["folder", "name"]
TierSpeakerFrom = Literal["tier", SpeakerFrom]
LookAlikes = Literal["report", "unify"]
HeldOut = Literal["utterances", "languages"]
Policy = Literal["reject", "drop", "keep"]
Harakat = Literal["keep", "drop"]
Check = Literal["auto", "headers", "decode"]

# What is written, and the tree over it.
Unit = Literal["char", "phone", "bpe"]
TreeKind = Literal[
    "huffman",
    "limited",
    "balanced",
    "random",
    "shuffled",
    "shuffled-phonetic",
    "embedding",
    "phonetic",
    "questions",
]
Weighting = Literal["language", "pooled"]
ColorBy = Literal["language", "script", "sharing"]
UnitOrder = Literal["mass", "code", "id"]

# The network, and how it learns.
Normalization = Literal["corpus", "utterance"]
SampleScale = Literal["int16", "unit"]
ModelSize = Literal["tiny", "small", "paper"]
EncoderKind = Literal["conformer", "transformer", "pretrained"]
TopKind = Literal["conformer", "transformer"]  # what may stand on a pretrained encoder
FrozenPart = Literal["all", "none"]
StateChoice = Literal["last", "upper", "mixture"]
Silence = Literal["none", "as-taught"]  # behind what a pretrained encoder hears
Quantized = Literal["none", "feed-forward"]  # by 8-bit products, where an encoder does not learn
DecoderKind = Literal["transformer", "none"]
OutputKind = Literal["softmax", "hierarchical", "tied"]
Smoothing = Literal["leaves", "gates"]
Optimizer = Literal["adam", "adamw"]
Schedule = Literal["warmup", "noam", "cosine"]
Precision = Literal["auto", "bf16", "fp32"]

# What is done with it.
Search = Literal[
    "ctc-greedy", "ctc-beam", "attention-greedy", "attention-beam", "joint", "rescoring", "mbr"
]
SearchMode = Literal["auto", Search]
VoiceActivity = Literal["energy", "silero"]
InventoryUse = Literal["none", "corpus", "both"]
HIGHEST_ORDER = 8  # of n-grams that are counted
VariantRole = Literal["compare", "pretrain"]
ExportTarget = Literal["onnx", "sherpa", "page"]
# int8 computes in 8 bits; int8-weights keeps weights so, and computes in fp32.
ExportPrecision = Literal["fp32", "int8", "int8-weights"]
OutputFormat = Literal["txt", "json", "srt", "vtt", "eaf", "textgrid"]
AlignmentFormat = Literal["textgrid", "eaf", "json", "ctm"]
DependentTier = Literal["words", "units", "confidence"]
ResponseFormat = Literal["json", "text", "srt", "vtt", "verbose_json", "eaf", "textgrid"]
# What a project proposes to correct next.
Proposal = Literal["gain", "confidence", "length", "random"]
TimestampGranularity = Literal["word", "segment"]


def values_of(choice: object) -> tuple[str, ...]:
    """Return what a choice offers, in its order: `values_of(Unit)` is char, phone, bpe."""
    return get_args(choice)
