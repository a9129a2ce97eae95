"""A process that has the models loaded and recognizes batches of speech."""

import math
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from arborvox.config import DecodeConfig
from arborvox.decode.explanation import Choice, explain, explained_tree
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.inventory import load_inventory
from arborvox.decode.searches import SEARCHES
from arborvox.decode.segments import SpeechSegment
from arborvox.errors import ArborvoxError
from arborvox.recognizer import Recognizer, load_run
from arborvox.serve.messages import Fault, Heard, ModelFacts, Question, Refusal, UnitChoice, Wishes
from arborvox.tokens.tokenizer import EOS_ID, Tokenizer
from arborvox.tree import CodeTree

MOST_VARIANTS = 32  # ways to search that are kept ready, of all models together
BLANK = "<blank>"
WORD_START = "\u2581"  # sentencepiece's
MOST_LETTERS = 120  # that a page shows in a row


def recognize_speech(
    connection: Connection,
    models: dict[str, Path],
    inventories: dict[str, Path],
    options: dict[str, Any],
    num_threads: int,
) -> None:
    """Load the models, tell of them, then answer each question; run in a child."""
    torch.set_num_threads(num_threads)
    try:
        hall = Hall(models, inventories, options)
    except (ArborvoxError, OSError) as error:
        connection.send(Refusal(str(error)))
        return
    except Exception:
        connection.send(Fault(traceback.format_exc()))
        return
    connection.send(hall.facts())
    while True:
        question: Question = connection.recv()
        try:
            connection.send(hall.answer(question))
        except ArborvoxError as error:
            connection.send(Refusal(str(error)))
        except Exception:
            connection.send(Fault(traceback.format_exc()))


class Hall:
    """All models of a server, each with the ways it was last asked to search."""

    def __init__(
        self, models: dict[str, Path], inventories: dict[str, Path], options: dict[str, Any]
    ) -> None:
        """Load each model once and let it warm up."""
        self._inventories = inventories
        self._paths = models
        self._models = {
            name: load_run(run, DecodeConfig(**options)) for name, run in models.items()
        }
        self._variants: OrderedDict[Wishes, Recognizer] = OrderedDict()
        for name, model in self._models.items():
            model.engine.rehearse()
            self._recognizer(Wishes(name, draft=True)).engine.rehearse()

    def facts(self) -> list[ModelFacts]:
        """Tell what there is."""
        return [self._facts_of(name, model) for name, model in self._models.items()]

    def answer(self, question: Question) -> list[Heard]:
        """Recognize a batch."""
        wishes = question.wishes
        recognizer = self._recognizer(replace(wishes, explained=False))
        engine = recognizer.engine
        features = [engine.features(speech.samples) for speech in question.batch]
        found = engine.hypotheses(features)
        best = [hypotheses[0] for hypotheses in found]
        choices: Sequence[list[Choice]] = [[]] * len(best)
        if wishes.explained:
            choices = explain(engine, features, best)
        return [
            _heard(recognizer, *each, wishes)
            for each in zip(question.batch, found, choices, strict=True)
        ]

    def _recognizer(self, wishes: Wishes) -> Recognizer:
        """Return a model that searches as wished; the network is shared."""
        if wishes in self._variants:
            self._variants.move_to_end(wishes)
            return self._variants[wishes]
        model = self._models[wishes.model]
        changes: dict[str, Any] = {}
        if wishes.draft and model.engine.search.needs_decoder:  # a decoder's beam is dear
            mode = "ctc-greedy" if model.engine.network.has_ctc else "attention-greedy"
            changes = {"mode": mode, "lm": None, "length_bonus": 0.0}
        if wishes.mode is not None:
            changes["mode"] = wishes.mode
        if wishes.beam is not None:
            changes["beam"] = wishes.beam
        engine = model.engine.variant(
            num_best=max(1, wishes.alternatives), allowed=self._allowed(wishes), **changes
        )
        variant = Recognizer(engine, model.max_segment_s)
        self._variants[wishes] = variant
        if len(self._variants) > MOST_VARIANTS:
            self._variants.popitem(last=False)
        return variant

    def _allowed(self, wishes: Wishes) -> list[int] | None:
        tokenizer = self._models[wishes.model].engine.tokenizer
        if wishes.inventory is not None:
            allowed = load_inventory(self._inventories[wishes.inventory], tokenizer)
            if wishes.language is None or not tokenizer.language_tags:
                return allowed
            own = tokenizer.tag_id(wishes.language)
            return [t for t in allowed if t == own or not 2 <= t < tokenizer.num_special]
        if wishes.language is not None:
            return _language_inventory(wishes.language, tokenizer)
        return None

    def _facts_of(self, name: str, model: Recognizer) -> ModelFacts:
        engine = model.engine
        tree = explained_tree(engine)
        has_ctc, has_decoder = engine.network.has_ctc, engine.network.has_attention
        usable = []
        for inventory, path in self._inventories.items():
            try:
                load_inventory(path, engine.tokenizer)
            except ArborvoxError:
                continue  # another model's
            usable.append(inventory)
        return ModelFacts(
            name=name,
            sampling_rate=engine.input.sampling_rate,
            max_segment_s=model.max_segment_s,
            languages=engine.tokenizer.languages,
            unit=engine.tokenizer.unit,
            mode=engine.mode,
            modes=tuple(
                mode
                for mode, kind in SEARCHES.items()
                if kind.can_use(has_ctc=has_ctc, has_decoder=has_decoder)
            ),
            beam=engine.config.beam,
            inventories=tuple(usable),
            letters=_letters(engine.tokenizer),
            created=int(engine.folder.stat().st_mtime),
            tree=None if tree is None else _tree_as_json(tree, engine.tokenizer),
        )


def _letters(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the letters or sounds beyond ASCII that a model writes; none if they are hundreds."""
    units = tokenizer.units[tokenizer.num_special :]
    signs = {sign for unit in units for sign in unit} if tokenizer.unit == "bpe" else set(units)
    letters = sorted(sign for sign in signs if not sign.isascii() and sign != WORD_START)
    return tuple(letters) if len(letters) <= MOST_LETTERS else ()


def _tree_as_json(tree: CodeTree, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "kind": tree.kind,
        "units": [_unit_name(tokenizer, token) for token in range(tree.num_leaves)],
        "masses": [float(f"{mass:.3g}") for mass in tree.probabilities],
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
    }


def _unit_name(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.units[token] if token < len(tokenizer) else BLANK


def _heard(
    recognizer: Recognizer,
    speech: SpeechSegment,
    found: Sequence[Hypothesis],
    choices: Sequence[Choice],
    wishes: Wishes,
) -> Heard:
    best, tokenizer = found[0], recognizer.engine.tokenizer
    logs = [math.log(max(confidence, 1e-10)) for confidence in best.confidences]
    alternatives = found[: wishes.alternatives]
    known_s = best.times_s(recognizer.engine.frame_s)
    times_s: Sequence[tuple[float | None, float | None]] = known_s or (
        [(None, None)] * len(best.tokens)
    )
    return Heard(
        segment=recognizer.segment(speech, best),
        tokens=best.tokens,
        mean_log_prob=round(sum(logs) / len(logs), 4) if logs else 0.0,
        alternatives=tuple(
            (tokenizer.decode(each.tokens).strip(), round(each.score, 4)) for each in alternatives
        ),
        choices=tuple(
            UnitChoice(
                unit=_unit_name(tokenizer, choice.token),
                start_s=None if begin is None else round(speech.start_s + begin, 3),
                end_s=None if end is None else round(speech.start_s + end, 3),
                probability=round(choice.probability, 4),
                rivals=tuple(
                    (_unit_name(tokenizer, token), round(p, 4)) for token, p in choice.rivals
                ),
                turns=tuple((node, left, round(p, 4)) for node, left, p in choice.turns),
            )
            for choice, (begin, end) in zip(choices, times_s, strict=False)
        ),
    )


def _language_inventory(language: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that the training data of a language had, of the tags its own alone."""
    if language not in tokenizer.counts:
        known = ", ".join(tokenizer.languages)
        raise ArborvoxError(f"The model has not learnt {language!r}; it knows: {known}.")
    counts = tokenizer.counts[language]
    tags = {tokenizer.tag_id(language)} if tokenizer.language_tags else set()
    written = range(tokenizer.num_special, len(tokenizer))
    return [EOS_ID, *sorted(tags), *(token for token in written if counts[token])]
