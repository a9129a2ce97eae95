"""Trees of questions: each inner node asks how a sound is made, and many ask the same.

A tree's mean code length is the entropy plus, for each node, its mass times what its split lacks of
one bit. So a node asks the question that wastes least, one that nothing has asked yet being dearer:
that trades bits for few questions, which are asked again and again.
"""

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arborvox.tree.articulation import Articulation, ask
from arborvox.tree.assembly import level_order, number_in_level_order
from arborvox.tree.clustering import deal_evenly
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, exact_weights, merge_lightest
from arborvox.tree.phonetic import PhoneticTree, join_above, place_units, unknown_units

# What a question costs, in bits of mean code length, before it is asked for the first time; one
# that knows a letter by name, and so says little about any other sound, costs more.
PRICE = 0.005
LETTER_PRICE = 0.01
# How many decisions a choice looks ahead, and how many of the best questions it follows at each.
LOOK_AHEAD = 2
FOLLOWED = (12, 25)

Group = NDArray[np.int64]  # rows of the questions' answers


@dataclass
class _Nodes:
    """Inner nodes as they are made; a child is a node, or ~row of a sound."""

    left: list[int] = field(default_factory=list)  # where the answer is yes
    right: list[int] = field(default_factory=list)
    questions: list[str | None] = field(default_factory=list)

    def add(self, question: str | None, left: int = 0, right: int = 0) -> int:
        """Add a node and return its number."""
        self.left.append(left)
        self.right.append(right)
        self.questions.append(question)
        return len(self.left) - 1


def question_tree(
    counts: Sequence[Count], units: Sequence[str], special: Sequence[str] = ()
) -> PhoneticTree:
    """Build a decision tree over articulation; a unit without a count stands where it belongs.

    Left is yes. Units that were never counted have no mass and move no other: the tree is built
    over the counted ones, and the questions that it asks lead the others to their places.
    """
    weights = exact_weights(counts)
    articulation = Articulation()
    places = place_units(articulation, units, special)
    # In an order of their own: sums are rounded, and the order of the units must not matter.
    phones = sorted(places, key=lambda token: units[token])
    relatives = [places[token] for token in phones]
    answers = ask(articulation, [units[token] for token in phones], relatives)
    heard = [row for row, token in enumerate(phones) if counts[token] > 0]
    masses = np.zeros(len(phones))
    masses[heard] = deal_evenly(np.array([float(counts[phones[row]]) for row in heard]))
    builder = _Builder(answers, masses, [weights[token] for token in phones])
    top = builder.build(np.array(heard))
    top = builder.place(top, [row for row in range(len(phones)) if not masses[row]])

    nodes = builder.nodes
    left, right = (
        [child if child >= 0 else ~phones[~child] for child in side]
        for side in (nodes.left, nodes.right)
    )
    root = join_above(left, right, top, phones, weights)
    questions = [*nodes.questions, *[None] * (len(left) - len(nodes.questions))]
    order = level_order(left, right, root)
    total = sum(float(count) for count in counts)
    tree = CodeTree(
        *number_in_level_order(left, right, root),
        np.array([float(count) / total for count in counts]),
        tuple(units),
        "questions",
        tuple(questions[node] for node in order),
    )
    return PhoneticTree(tree, *unknown_units(articulation, units, special, places))


class _Builder:
    """Splits groups of sounds by questions, and knows which have been asked."""

    def __init__(
        self,
        answers: dict[str, NDArray[np.bool_]],
        masses: NDArray[np.float64],
        weights: Sequence[int],
    ) -> None:
        self.nodes = _Nodes()
        self._names = list(answers)
        self._answers = np.stack(list(answers.values()))  # (questions, sounds)
        self._masses, self._weights = masses, weights
        self._prices = np.array(
            [LETTER_PRICE if name.startswith("letter ") else PRICE for name in self._names]
        )
        self._asked_mass: defaultdict[int, float] = defaultdict(float)

    def build(self, sounds: Group) -> int:
        """Split the sounds until each stands alone, the heaviest groups first; return the root."""
        # The heaviest groups choose first: what they ask costs the others nothing.
        waiting = [(-1.0, 0, sounds)]
        slots: list[tuple[list[int], int]] = [([0], 0)]  # where each group's number is to stand
        root = slots[0][0]
        while waiting:
            _, number, group = heapq.heappop(waiting)
            children, place = slots[number]
            if len(group) == 1:
                children[place] = ~int(group[0])
                continue
            question = self._choose(group, LOOK_AHEAD)[1]
            if question is None:
                children[place] = self._join(group.tolist())
                continue
            node = children[place] = self.nodes.add(self._names[question])
            self._prices[question] = 0.0
            self._asked_mass[question] += float(self._masses[group].sum())
            yes = self._answers[question, group]
            for side, part in ((self.nodes.left, group[yes]), (self.nodes.right, group[~yes])):
                slots.append((side, node))
                heapq.heappush(waiting, (-float(self._masses[part].sum()), len(slots) - 1, part))
        return root[0]

    def place(self, root: int, sounds: Sequence[int]) -> int:
        """Let the questions lead sounds without mass to their places; return the root."""
        nodes = self.nodes
        names = {name: number for number, name in enumerate(self._names)}
        landed: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # (parent, side)
        for sound in sounds:
            parent, side, child = -1, 0, root
            while child >= 0 and (asked := nodes.questions[child]) is not None:
                parent, side = child, int(not self._answers[names[asked], sound])
                child = (nodes.left, nodes.right)[side][child]
            landed[parent, side].append(sound)
        for (parent, side), guests in landed.items():
            if parent < 0:
                root = self._house(root, guests)
            else:
                children = (nodes.left, nodes.right)[side]
                children[parent] = self._house(children[parent], guests)
        return root

    def _house(self, host: int, guests: list[int]) -> int:
        """Put guests beside a counted sound, or beside several that nothing tells apart."""
        below = host
        while below >= 0:
            below = self.nodes.left[below]
        own = self._answers[:, ~below]
        others = np.array(guests)
        unlike = (self._answers[:, others] != own[:, None]).sum(axis=1)
        # The question that sends away most guests, so that the host's code grows least; of such
        # the one that most of the mass has answered.
        best = max(self._asked_mass, key=lambda q: (unlike[q], self._asked_mass[q]), default=None)
        if best is None or not unlike[best]:
            return self.nodes.add(None, self._settle(others), host)
        parting = self._answers[best, others] != own[best]
        node = self.nodes.add(self._names[best])
        gone, left_over = self._settle(others[parting]), others[~parting].tolist()
        rest = self._house(host, left_over) if left_over else host
        sides = (rest, gone) if own[best] else (gone, rest)
        self.nodes.left[node], self.nodes.right[node] = sides
        return node

    def _settle(self, guests: Group) -> int:
        """Split guests by the questions that counted sounds have answered."""
        if len(guests) == 1:
            return ~int(guests[0])
        asked = list(self._asked_mass)
        yes = self._answers[np.array(asked, np.int64)][:, guests]
        evenness = np.minimum(yes.sum(axis=1), (~yes).sum(axis=1))
        if not asked or not evenness.max():
            return self._join(guests.tolist())
        best = max(range(len(asked)), key=lambda n: (evenness[n], self._asked_mass[asked[n]]))
        node = self.nodes.add(self._names[asked[best]])
        self.nodes.left[node] = self._settle(guests[yes[best]])
        self.nodes.right[node] = self._settle(guests[~yes[best]])
        return node

    def _join(self, sounds: Sequence[int]) -> int:
        """Join sounds that no question tells apart by Huffman's rule."""
        first = len(self.nodes.left)
        for pair in zip(*merge_lightest([self._weights[s] for s in sounds]), strict=True):
            children = (first + c if c >= 0 else ~sounds[~c] for c in pair)
            self.nodes.add(None, *children)
        return len(self.nodes.left) - 1

    def _choose(self, group: Group, ahead: int) -> tuple[float, int | None]:
        """Return the least waste that can be seen and its first question, if one parts the group.

        What is wasted: mass times what the split's entropy lacks of one bit.
        """
        if len(group) < 2:
            return 0.0, None
        masses = self._masses[group]
        yes = self._answers[:, group]
        total = masses.sum()
        shares = (yes @ masses) / total
        wastes = total * (1.0 - _binary_entropy(shares)) + self._prices
        wastes[~(yes.any(axis=1) & ~yes.all(axis=1))] = np.inf
        if ahead:
            followed = np.argsort(wastes, kind="stable")[: FOLLOWED[-ahead]]
            seen = np.full(len(wastes), np.inf)
            for question in followed[np.isfinite(wastes[followed])]:
                parts = (group[yes[question]], group[~yes[question]])
                seen[question] = wastes[question] + sum(
                    self._choose(part, ahead - 1)[0] for part in parts
                )
            wastes = seen
        best = int(np.argmin(wastes))
        return (float(wastes[best]), best) if np.isfinite(wastes[best]) else (0.0, None)


def _binary_entropy(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bits of a decision that falls on one side with these shares."""
    inside = np.clip(share, 1e-12, 1.0 - 1e-12)
    bits: NDArray[np.float64] = -(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside))
    return bits
