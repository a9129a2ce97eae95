"""Start from another model: take every part that fits, and say what was taken and what was not."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax, TiedSoftmax
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_checkpoint
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree

BLANK = "<blank>"
OUTPUTS = ("output.", "ctc.output.")


@dataclass(frozen=True)
class RowMatch:
    """Which rows of a new tensor continue which rows of an old one."""

    new: Tensor  # (n,) int64
    old: Tensor  # (n,) int64
    signs: Tensor  # (n,) -1 where the old gate has left and right the other way round

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """New rows, old rows and signs."""
        return self.new, self.old, self.signs


@dataclass(frozen=True)
class WarmStartReport:
    """What was taken over from another model."""

    source: Path
    whole: tuple[str, ...]  # tensors taken as they are
    rows: dict[str, tuple[int, int]]  # tensor -> rows taken, rows in all
    fresh: tuple[str, ...]  # tensors that nothing was taken for

    def __str__(self) -> str:
        """Tell it by part of the network, one line each."""
        lines = [f"Warm start from {self.source}:"]
        parts = sorted({_part(name) for name in (*self.whole, *self.fresh)})
        for part in parts:
            taken = sum(_part(name) == part for name in self.whole)
            total = taken + sum(_part(name) == part for name in self.fresh)
            lines.append(f"  {part}: {taken} of {total} tensors")
        lines += [f"  {name}: {taken} of {of} rows" for name, (taken, of) in self.rows.items()]
        if self.fresh:
            lines.append(f"  left fresh: {', '.join(self.fresh)}")
        return "\n".join(lines)


@torch.no_grad()
def warm_start(
    model: ASR, source: Path, tokenizer: Tokenizer, *, outputs: bool = True
) -> WarmStartReport:
    """Copy into `model` what fits from a checkpoint or run folder; units are matched by name.

    Without `outputs` the output layers begin anew, whatever fits.
    """
    donor = load_checkpoint(source)
    matches = _match_rows(model, tokenizer.units, donor.model, donor.tokenizer.units)
    theirs = donor.model.state_dict()
    whole: list[str] = []
    rows: dict[str, tuple[int, int]] = {}
    fresh: list[str] = []
    for name, ours in model.state_dict().items():
        given = theirs.get(name)
        match = matches.get(name)
        unwanted = not outputs and name.startswith(OUTPUTS)
        if given is None or unwanted or given.shape[1:] != ours.shape[1:]:
            fresh.append(name)
        elif match is not None:
            signs = match.signs.to(given.dtype).view(-1, *[1] * (given.dim() - 1))
            ours[match.new] = (given[match.old] * signs).to(ours)
            rows[name] = (len(match.new), len(ours))
        elif given.shape == ours.shape and not _has_token_rows(name):
            ours.copy_(given)
            whole.append(name)
        else:
            fresh.append(name)
    return WarmStartReport(donor.folder, tuple(whole), rows, tuple(fresh))


def _match_rows(
    model: ASR, units: Sequence[str], donor: ASR, donor_units: Sequence[str]
) -> dict[str, RowMatch]:
    """Match the rows of every tensor that has one for each token or gate."""
    matches: dict[str, RowMatch] = {}
    if model.decoder is not None and donor.decoder is not None:
        matches["decoder.embedding.weight"] = match_units(units, donor_units)
    if model.output is not None and donor.output is not None:
        matches |= _match_layer("output", model.output, units, donor.output, donor_units)
    if model.ctc is not None and donor.ctc is not None:
        with_blank, donor_with_blank = (*units, BLANK), (*donor_units, BLANK)
        matches |= _match_layer(
            "ctc.output", model.ctc.output, with_blank, donor.ctc.output, donor_with_blank
        )
    return matches


def _match_layer(
    name: str,
    layer: OutputLayer,
    units: Sequence[str],
    donor: OutputLayer,
    donor_units: Sequence[str],
) -> dict[str, RowMatch]:
    if isinstance(layer, Softmax) and isinstance(donor, Softmax):
        match = match_units(units, donor_units)
        return {f"{name}.weight": match, f"{name}.bias": match}
    if isinstance(layer, TiedSoftmax) or isinstance(donor, TiedSoftmax):
        if not (isinstance(layer, TiedSoftmax) and isinstance(donor, TiedSoftmax)):
            return {}
        gates = match_gates(layer.tree, units, donor.tree, donor_units)
        return {
            f"{name}.question": match_questions(layer, donor, gates),
            f"{name}.deviation": match_deviations(layer, donor, gates),
        }
    if isinstance(layer, HierarchicalSoftmax) and isinstance(donor, HierarchicalSoftmax):
        return {f"{name}.weight": match_gates(layer.tree, units, donor.tree, donor_units)}
    return {}


def match_units(units: Sequence[str], donor_units: Sequence[str]) -> RowMatch:
    """Match token ids of the same unit."""
    places = {unit: place for place, unit in enumerate(donor_units)}
    pairs = [(token, places[unit], 1) for token, unit in enumerate(units) if unit in places]
    return _row_match(pairs)


def match_gates(
    tree: CodeTree, units: Sequence[str], donor: CodeTree, donor_units: Sequence[str]
) -> RowMatch:
    """Match inner nodes that part the same units; where the sides are swapped, the sign turns."""
    places = {sides: node for node, sides in enumerate(_sides(donor, donor_units))}
    pairs = []
    for node, (left, right) in enumerate(_sides(tree, units)):
        if (left, right) in places:
            pairs.append((node, places[left, right], 1))
        elif (right, left) in places:
            pairs.append((node, places[right, left], -1))
    return _row_match(pairs)


def match_questions(layer: TiedSoftmax, donor: TiedSoftmax, gates: RowMatch) -> RowMatch:
    """Match questions of the same name; those without one by the gates that ask them."""
    places = {name: row for row, name in enumerate(donor.question_names)}
    pairs = {
        row: (row, places[name], 1)
        for row, name in enumerate(layer.question_names)
        if not name.startswith("~") and name in places
    }
    for new, old, sign in zip(*(part.tolist() for part in gates.parts), strict=True):
        rows = int(layer.asked[new]), int(donor.asked[old])
        names = layer.question_names[rows[0]], donor.question_names[rows[1]]
        if all(name.startswith("~") for name in names):
            pairs[rows[0]] = (*rows, sign)
    return _row_match(list(pairs.values()))


def match_deviations(layer: TiedSoftmax, donor: TiedSoftmax, gates: RowMatch) -> RowMatch:
    """Match deviations of gates that part the same units by the same question."""
    pairs = []
    for new, old, sign in zip(*(part.tolist() for part in gates.parts), strict=True):
        slots = int(layer.deviating[new]), int(donor.deviating[old])
        names = layer.question_names[layer.asked[new]], donor.question_names[donor.asked[old]]
        if min(slots) >= 0 and sign > 0 and names[0] == names[1]:
            pairs.append((*slots, 1))
    return _row_match(pairs)


def _sides(tree: CodeTree, units: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Return a fingerprint of the set of units on each side of every inner node."""
    # A set's fingerprint is the sum of its members' hashes of 128 bits, which wraps around.
    hashes = b"".join(hashlib.blake2b(unit.encode(), digest_size=16).digest() for unit in units)
    leaf_hashes: NDArray[np.uint64] = np.frombuffer(hashes, np.uint64).reshape(-1, 2)
    left, right = tree.sums_below(leaf_hashes)
    return [(a.tobytes(), b.tobytes()) for a, b in zip(left, right, strict=True)]


def _row_match(pairs: Sequence[tuple[int, int, int]]) -> RowMatch:
    table = torch.tensor(pairs, dtype=torch.int64).view(-1, 3)
    return RowMatch(*table.unbind(1))


def _has_token_rows(name: str) -> bool:
    """Say whether rows stand for tokens or gates, which another vocabulary numbers otherwise."""
    return name.startswith(("output.", "ctc.output.", "decoder.embedding."))


def _part(name: str) -> str:
    """Name the part of the network that a tensor belongs to."""
    return name.split(".")[0]
