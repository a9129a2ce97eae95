"""`arborvox tune`: weights for a model's search, chosen on a development set alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from torch.nn.utils.rnn import pad_sequence

from arborvox.config import DecodeConfig
from arborvox.console import progress, say, show, warn
from arborvox.decode.automaton import LanguageModel
from arborvox.decode.corpus_decoding import cut_by_length, read_speech
from arborvox.decode.engine import Engine, load_engine
from arborvox.decode.language_model import load_language_model
from arborvox.decode.network import Encoded
from arborvox.decode.searches import SEARCHES
from arborvox.errors import ArborvoxError
from arborvox.files import write_text_atomic
from arborvox.manifest import Utterance, load_manifest, read_manifest, split_file
from arborvox.model.checkpoint import save_search
from arborvox.score.counts import Metric, error_counts, metrics_of, split_units
from arborvox.tuning.candidates import make_settings, propose
from arborvox.tuning.grid import (
    CTC_WEIGHTS,
    LENGTH_BONUSES,
    LM_WEIGHTS,
    ErrorGrid,
    ScoredList,
    Weights,
    search_grid,
)
from arborvox.tuning.picture import draw_grid
from arborvox.yaml12 import dump_yaml

YAML_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Trial:
    """A real search of the development set with some weights."""

    name: str
    weights: Weights
    num_errors: int


def tune(
    run: Path,
    manifest: Path,
    config: DecodeConfig,
    out: Path,
    num_confirmed: int,
    *,
    apply: bool = False,
) -> None:
    """Choose the weights of a search; write them, and a picture of the grid beside them.

    apply: put them, and the language model, into the model as well.
    """
    if out.suffix not in YAML_SUFFIXES:
        raise ArborvoxError(f"{out}: the name of the weights must end in .yaml.")
    utterances = check_development_set(manifest)
    engine = load_engine(run, config.model_copy(update={"lm": None}))
    if not engine.search.wide:
        wide = (name for name, kind in SEARCHES.items() if kind.wide)
        raise ArborvoxError(
            f"{engine.mode} weighs nothing, so there is nothing to tune; choose {', '.join(wide)}."
        )
    lm = None if config.lm is None else load_language_model(config.lm, engine.tokenizer)
    session = _Session(engine, lm, utterances, metrics_of(engine.tokenizer.unit)[0])
    engine.rehearse()
    grid = session.search_grid()
    trials = session.confirm(grid, num_confirmed)
    chosen = min(trials, key=lambda trial: trial.num_errors)
    write_text_atomic(out, session.as_yaml(manifest, config.lm, trials[0], chosen))
    picture = out.with_suffix(".png")
    draw_grid(grid, session.num_units, session.metric, chosen.weights, picture)
    session.show(trials, chosen)
    say(f"wrote {picture}")
    say(f"wrote {out}")
    if apply:
        folder = save_search(run, DecodeConfig(**session.tuned(config.lm, chosen.weights)))
        told = "" if config.lm is None else ", with the language model"
        say(f"put them into {folder}{told}: it is searched so where nothing else is asked for")
    else:
        show(f"to decode with them: {session.as_options(config.lm, chosen.weights)}")


def check_development_set(manifest: Path) -> list[Utterance]:
    """Return the utterances, unless they are what the model was trained on or is tested on."""
    reasons = {
        split_file("test"): "what is tuned on the test set is not tested by it",
        split_file("train"): "the model knows its training set by heart",
    }
    advice = f"tune on the development set ({split_file('dev')})"
    if reason := reasons.get(manifest.name):
        raise ArborvoxError(f"{manifest}: {reason}; {advice}.")
    utterances = load_manifest(manifest)
    if not utterances:
        raise ArborvoxError(f"{manifest} holds no utterances, so there is nothing to tune on.")
    asked = {utterance.id for utterance in utterances}
    for name, reason in reasons.items():
        if (beside := manifest.with_name(name)).is_file():
            shared = sum(other.id in asked for other in read_manifest(beside))
            if shared:
                raise ArborvoxError(
                    f"{manifest} has {shared} utterances of {name} beside it; {reason}; {advice}."
                )
    return utterances


class _Session:
    """A model, a development set, and the searches between them."""

    def __init__(
        self, engine: Engine, lm: LanguageModel | None, utterances: list[Utterance], metric: Metric
    ) -> None:
        self.engine, self.metric = engine, metric
        self.num_units = 0  # of the references that were heard
        self._lm = lm
        self._utterances = utterances

    def search_grid(self) -> ErrorGrid:
        """Let searches propose hypotheses, and re-rank them with each point's weights."""
        engine, lists = self.engine, list[ScoredList]()
        for heard, encoded in self._encode("proposing"):
            found = propose(engine.network, encoded, engine.search, self._lm, engine.config.beam)
            for utterance, candidates in zip(heard, found, strict=True):
                errors = [self._count(utterance, tokens) for tokens in candidates.transcripts]
                lists.append(
                    ScoredList(
                        candidates.ctc, candidates.attention, candidates.lm,
                        candidates.num_tokens, np.array(errors, np.int64),
                    )
                )  # fmt: skip
                self.num_units += len(split_units(utterance.text, self.metric))
        if not lists:
            raise ArborvoxError("No utterance of the development set could be read.")
        if not self.num_units:
            raise ArborvoxError("The development set has no transcripts to compare with.")
        if len(lists) < len(self._utterances):
            warn(f"{len(self._utterances) - len(lists)} utterances could not be read")
        search = engine.search
        # A search that does not share its score between the two has all of it from one.
        alone = (1.0,) if search.needs_ctc else (0.0,)
        return search_grid(
            lists,
            CTC_WEIGHTS if search.weighs_ctc else alone,
            LM_WEIGHTS if self._lm is not None else (0.0,),
            LENGTH_BONUSES,
        )

    def confirm(self, grid: ErrorGrid, number: int) -> list[Trial]:
        """Search with the weights as they were, then with the best of the grid."""
        config = self.engine.weights_now(with_lm=self._lm is not None)
        before = Weights(config.ctc_weight, config.lm_weight, config.length_bonus)
        tried = {"as it was": before}
        tried |= {f"grid, {n}.": weights for n, weights in enumerate(grid.best(number), start=1)}
        num_errors = dict.fromkeys(tried, 0)
        for heard, encoded in self._encode("confirming"):
            for name, weights in tried.items():
                num_errors[name] += self._search(heard, encoded, weights)
        return [Trial(name, weights, num_errors[name]) for name, weights in tried.items()]

    @torch.inference_mode()
    def _search(self, heard: list[Utterance], encoded: Encoded, weights: Weights) -> int:
        engine = self.engine
        settings = make_settings(engine.search, weights, self._lm, engine.config.beam)
        found = engine.search.run(engine.network, encoded, settings)
        return sum(
            self._count(utterance, best[0].tokens)
            for utterance, best in zip(heard, found, strict=True)
        )

    def _encode(self, doing: str) -> Iterator[tuple[list[Utterance], Encoded]]:
        engine = self.engine
        with progress(doing, len(self._utterances)) as advance:
            for batch in cut_by_length(self._utterances, engine.config.batch_s):
                heard, features = read_speech(batch, engine)
                if features:
                    lens = torch.tensor([len(values) for values in features])
                    padded = pad_sequence(list(features), batch_first=True)
                    with torch.inference_mode():
                        yield heard, engine.network.encode(padded, lens)
                advance(len(batch))

    def _count(self, utterance: Utterance, tokens: tuple[int, ...]) -> int:
        text = self.engine.tokenizer.decode(tokens)
        return error_counts(
            split_units(utterance.text, self.metric), split_units(text, self.metric)
        ).num_errors

    def rate(self, trial: Trial) -> str:
        """Return an error rate in per cent."""
        return f"{100 * trial.num_errors / self.num_units:.2f}"

    def tuned(self, lm: Path | None, weights: Weights) -> dict[str, Any]:
        """Return the keys of the decode section that were settled."""
        engine = self.engine
        values: dict[str, Any] = {"mode": engine.mode, "beam": engine.config.beam}
        if engine.search.weighs_ctc:
            values["ctc_weight"] = weights.ctc_weight
        if lm is not None:
            values |= {"lm": str(lm), "lm_weight": weights.lm_weight}
        return values | {"length_bonus": weights.length_bonus}

    def as_yaml(self, manifest: Path, lm: Path | None, before: Trial, chosen: Trial) -> str:
        """Return a decode section for a recipe."""
        told = (
            f"# Tuned on {manifest.name!a}: {self.metric.label} {self.rate(chosen)} %, "
            f"before {self.rate(before)} %.\n"
        )
        return told + dump_yaml({"decode": self.tuned(lm, chosen.weights)})

    def as_options(self, lm: Path | None, weights: Weights) -> str:
        """Return the options of `arborvox decode` and `arborvox transcribe`."""
        values = self.tuned(lm, weights).items()
        return " ".join(f"--{key.replace('_', '-')} {value}" for key, value in values)

    def show(self, trials: list[Trial], chosen: Trial) -> None:
        """Print what real searches found."""
        label = f"{self.metric.label} (%)"
        header = ("", "CTC weight", "LM weight", "length bonus", label)
        table = Table(*header, box=None, pad_edge=False)
        for trial in trials:
            weights = trial.weights
            lm_weight = f"{weights.lm_weight:g}" if self._lm is not None else "-"
            ctc_weight = f"{weights.ctc_weight:g}" if self.engine.search.weighs_ctc else "-"
            mark = " *" if trial is chosen else ""
            numbers = (ctc_weight, lm_weight, f"{weights.length_bonus:g}")
            table.add_row(trial.name, *numbers, self.rate(trial) + mark)
        show(table)
