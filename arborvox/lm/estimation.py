"""From sentences of numbered words to a model: the steps, and what may be chosen."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from arborvox.config.choices import HIGHEST_ORDER
from arborvox.errors import ArborvoxError
from arborvox.lm.counting import WindowCounter, Workspace
from arborvox.lm.kneser_ney import NgramModel, smooth
from arborvox.lm.table import make_table

SMALLEST_MEMORY_BYTES = 1 << 26


@dataclass(frozen=True)
class EstimationConfig:
    """How a model is made."""

    order: int = 6
    # By order, from 1: n-grams that were seen no more often are not listed. The last one holds
    # for the orders after it.
    cut_offs: tuple[int, ...] = (0,)
    memory_bytes: int = 1 << 30  # larger arrays become temporary files

    def __post_init__(self) -> None:
        """Refuse what no model can be made by."""
        if not 1 <= self.order <= HIGHEST_ORDER:
            raise ArborvoxError(f"The order of a language model is 1 to {HIGHEST_ORDER}.")
        cut_offs = self.cut_offs
        if not cut_offs or cut_offs[0] != 0:
            raise ArborvoxError("The first cut-off is for single units and must be 0.")
        if len(cut_offs) > self.order:
            raise ArborvoxError(
                f"There are {len(cut_offs)} cut-offs for a language model of order {self.order}."
            )
        if list(cut_offs) != sorted(cut_offs):
            raise ArborvoxError(
                "Cut-offs must not fall: an n-gram is listed with the shorter ones inside it."
            )
        if self.memory_bytes < SMALLEST_MEMORY_BYTES:
            raise ArborvoxError(
                f"A language model needs at least {SMALLEST_MEMORY_BYTES / 1e9:.2f} GB of memory."
            )

    @property
    def cut_off_by_order(self) -> tuple[int, ...]:
        """A cut-off for each order."""
        missing = self.order - len(self.cut_offs)
        return self.cut_offs + self.cut_offs[-1:] * missing


@contextmanager
def estimate_ngrams(
    sentences: Iterable[Sequence[int]], num_words: int, config: EstimationConfig
) -> Iterator[NgramModel]:
    """Give a block the model of sentences of word numbers; its files go away afterwards.

    Words are numbered from `counting.FIRST_WORD`; `num_words` is one more than the highest number.
    """
    with Workspace(config.memory_bytes) as workspace:
        counter = WindowCounter(config.order, num_words, workspace)
        counter.add(sentences)
        windows = counter.finish()
        table = make_table(windows, counter.packing, config.cut_off_by_order, workspace)
        del windows
        yield smooth(table, workspace)
