"""What stands before the first step: the tables of utterances and the features' mean."""

from dataclasses import dataclass, replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from arborvox.config import AugmentConfig, Recipe
from arborvox.console import say, warn
from arborvox.data import BatchReader, UtteranceTable, build_table
from arborvox.digests import digest_files
from arborvox.errors import ArborvoxError, one_line
from arborvox.features import CMVN, SpeechInput
from arborvox.files import atomic_path
from arborvox.manifest import split_file
from arborvox.model.encoders import make_input
from arborvox.tokens import UNK_ID, Tokenizer
from arborvox.tokens.piece_dropout import PieceDropout
from arborvox.training.loader import measure_cmvn
from arborvox.training.ranks import Ranks
from arborvox.training.state import RunFolder

MOST_UNKNOWN = 0.5  # of the units; more than this are another language's tokens


@dataclass(frozen=True)
class TrainingData:
    """Tables to train and to evaluate on, the encoder's input, and its statistics."""

    train: UtteranceTable
    dev: UtteranceTable
    input: SpeechInput
    cmvn: CMVN | None  # where the encoder normalizes by the training data
    cache: str | None
    cut_anew: PieceDropout | None = None

    def training_reader(self, augment: AugmentConfig | None) -> BatchReader:
        """Return what makes training batches; masks are filled with what is normal.

        None is for a plain start: speech as it is, but without its pauses.
        """
        fill = None if self.cmvn is None else self.cmvn.mean
        reader = BatchReader(self.train, self.input, augment, fill, self.cache)
        plain = augment is None
        return replace(reader, pauses=not plain, cut_anew=None if plain else self.cut_anew)

    def dev_reader(self) -> BatchReader:
        """Return what makes batches of the development set."""
        return BatchReader(self.dev, self.input, cache=self.cache)


def prepare_data(
    run: RunFolder, recipe: Recipe, manifests: Path, tokens: Path, ranks: Ranks
) -> TrainingData:
    """Open the run's tables; the first rank makes what is not there yet."""
    speech_input = make_input(recipe.model, recipe.features, run.encoder_files(recipe))
    if ranks.first:
        _make_data(run, recipe, speech_input, manifests, tokens)
    ranks.wait()
    rate = recipe.augment.piece_dropout
    cmvn = None
    if speech_input.wants_statistics:
        cmvn = _load_cmvn(run.data / "cmvn.safetensors", speech_input.width)
    return TrainingData(
        train=UtteranceTable(run.data / "train"),
        dev=UtteranceTable(run.data / "dev"),
        input=speech_input,
        cmvn=cmvn,
        cache=recipe.features.cache,
        cut_anew=PieceDropout(Tokenizer.load(tokens), rate) if rate else None,
    )


def _load_cmvn(path: Path, width: int) -> CMVN:
    try:
        stored = load_file(path)
        cmvn = CMVN(stored["mean"], stored["istd"])
        if not cmvn.mean.shape == cmvn.istd.shape == (width,):
            raise ValueError(f"not of {width} numbers")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        told = one_line(str(error))
        raise ArborvoxError(f"{path} is damaged ({told}); delete it, it is made again.") from None
    return cmvn


def _make_data(
    run: RunFolder, recipe: Recipe, speech_input: SpeechInput, manifests: Path, tokens: Path
) -> None:
    tokenizer = Tokenizer.load(tokens)
    tables = {}
    for split in ("train", "dev"):
        manifest = manifests / split_file(split)
        # The longest-duration limit decides what is in the table, as the files do.
        limit = recipe.train.max_duration_s
        source = f"{digest_files(manifest, tokens)} up to {limit:g} s"
        folder = run.data / split
        if (folder / "table.json").exists():
            tables[split] = UtteranceTable(folder)
            if tables[split].source == source:
                continue
            if run.newest_state() is not None:
                raise ArborvoxError(
                    f"{run.root} was trained on another {manifest.name} or other tokens; "
                    "choose another --out, or give the ones it began with."
                )
        (run.data / "cmvn.safetensors").unlink(missing_ok=True)
        tables[split] = build_table(
            folder,
            manifest,
            tokenizer,
            source=source,
            max_duration_s=limit,
            unknown_id=UNK_ID,
        )
        _tell(tables[split], split, manifest)
    if not len(tables["train"]):
        raise ArborvoxError(f"There is nothing to train on in {manifests / split_file('train')}.")
    share = _unknown_share(tables["train"])
    if share > MOST_UNKNOWN:
        raise ArborvoxError(
            f"{share:.0%} of the units of {manifests / split_file('train')} are not in the tokens; "
            "give the tokens that were made from these manifests."
        )
    if not len(tables["dev"]):
        warn("There is no development set: checkpoints are chosen by their training loss.")
    if speech_input.wants_statistics and not (run.data / "cmvn.safetensors").exists():
        reader = BatchReader(tables["train"], speech_input, cache=recipe.features.cache)
        cmvn = measure_cmvn(reader, recipe.train.batch_s)
        with atomic_path(run.data / "cmvn.safetensors") as part:
            save_file({"mean": cmvn.mean, "istd": cmvn.istd}, part)


def _tell(table: UtteranceTable, split: str, manifest: Path) -> None:
    say(
        f"{split}: {len(table)} utterances, {table.duration_s / 3600:.2f} h, "
        f"{len(table.languages)} language(s)"
    )
    if table.num_skipped:
        warn(
            f"{table.num_skipped} utterances of {manifest.name} are too long or empty and were "
            f"left out; they are listed in {table.folder / 'skipped.tsv'}."
        )
    if table.num_unknown:
        warn(
            f"{table.num_unknown} units of {manifest.name} ({_unknown_share(table):.1%}) are not "
            "in the tokens: <unk>."
        )


def _unknown_share(table: UtteranceTable) -> float:
    return table.num_unknown / max(table.num_units, 1)
