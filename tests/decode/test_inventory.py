"""With an inventory nothing else is ever written, and probabilities are the renormalized ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_searches import SEARCHES
from tiny_models import UNITS, MakeModel, Speech

from arborvox.decode.inventory import load_inventory
from arborvox.decode.network import Network
from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax
from arborvox.hsoftmax.restricted import choices, restrict
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

WIDTH = 8


def make_layer(kind: str, V: int, seed: int) -> OutputLayer:
    torch.manual_seed(seed)
    counts = np.random.default_rng(seed).integers(1, 1000, V).tolist()
    layer: OutputLayer = (
        Softmax(WIDTH, V)
        if kind == "softmax"
        else HierarchicalSoftmax(WIDTH, HuffmanTree.from_counts(counts))
    )
    layer = layer.double()
    torch.nn.init.normal_(layer.weight, std=2.0)
    return layer


@pytest.mark.parametrize("kind", ["softmax", "hierarchical"])
@given(data=st.data())
@settings(deadline=None, derandomize=True, max_examples=40)
def test_restricted_probabilities_are_the_renormalized_full_ones(
    kind: str, data: st.DataObject
) -> None:
    V = data.draw(st.integers(2, 60))
    ids = data.draw(st.sets(st.integers(0, V - 1), min_size=2))
    layer = make_layer(kind, V, seed=V)
    h = torch.randn(5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        full = layer.log_probs(h)
        restricted = restrict(layer, sorted(ids))
        found = restricted.log_probs(h)
        living = torch.tensor(sorted(ids))
        expected = full[:, living] - full[:, living].logsumexp(1, keepdim=True)
        torch.testing.assert_close(found[:, living], expected)
        torch.testing.assert_close(found.exp().sum(1), torch.ones(5, dtype=torch.float64))
        assert found.isneginf().sum() == 5 * (V - len(ids))
        assert choices(restricted).tolist() == sorted(ids)

        k = data.draw(st.integers(1, len(ids)))
        values, tokens = restricted.topk(h, k)
        assert set(tokens.flatten().tolist()) <= ids
        torch.testing.assert_close(values, found.topk(k, dim=1).values)
        torch.testing.assert_close(found.gather(1, tokens), values)
        torch.testing.assert_close(restricted.nll(h, tokens[:, 0]), -values[:, 0])


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@given(data=st.data())
@settings(deadline=None, derandomize=True, max_examples=40)
def test_fast_search_finds_the_best_of_the_renormalized(kernel: str, data: st.DataObject) -> None:
    V, N = data.draw(st.integers(2, 60)), data.draw(st.integers(0, 40))
    ids = sorted(data.draw(st.sets(st.integers(0, V - 1), min_size=2)))
    k = data.draw(st.integers(1, len(ids)))
    layer = make_layer("hierarchical", V, seed=V)
    h = torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        exact = layer.log_probs(h.double())[:, ids].log_softmax(1)
        assert isinstance(layer, HierarchicalSoftmax)
        layer.kernel = kernel
        values, tokens = restrict(layer.float(), ids).topk(h, k)
    best = exact.topk(k, dim=1)
    torch.testing.assert_close(values.double(), best.values, rtol=1e-5, atol=1e-5)
    assert torch.equal(tokens, torch.tensor(ids)[best.indices])


def test_rows_with_nan_lose_only_themselves() -> None:
    restricted = restrict(make_layer("hierarchical", 30, seed=0).float(), range(3, 20))
    h = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))
    before = restricted.topk(h, 4)
    h[1, 2] = torch.nan
    values, tokens = restricted.topk(h, 4)
    assert values[1].isnan().all()
    assert tokens[1].tolist() == [3, 4, 5, 6]
    for row in (0, 2):
        assert torch.equal(values[row], before[0][row])
        assert torch.equal(tokens[row], before[1][row])


def test_equal_scores_give_lower_tokens_first() -> None:
    layer = HierarchicalSoftmax(WIDTH, HuffmanTree.from_counts([1] * 8))  # all paths are alike
    _, tokens = restrict(layer, [7, 1, 5, 4]).topk(torch.zeros(2, WIDTH), 3)
    assert tokens.tolist() == [[1, 4, 5]] * 2


def test_targets_outside_the_inventory_are_impossible() -> None:
    restricted = restrict(make_layer("softmax", 7, seed=0), [1, 4])
    h = torch.zeros(3, WIDTH).double()
    assert restricted.nll(h, torch.tensor([0, 2, 6])).isposinf().all()
    with pytest.raises(ArborvoxError, match="7"):
        restricted.nll(h, torch.tensor([1, 4, 7]))


def test_whole_vocabulary_restricts_nothing() -> None:
    layer = make_layer("hierarchical", 20, seed=0)
    h = torch.randn(3, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(restrict(layer, range(20)).log_probs(h), layer.log_probs(h))


def test_dead_branches_are_never_computed() -> None:
    layer = make_layer("hierarchical", 500, seed=0)
    assert len(restrict(layer, [3, 4, 5]).weight) < 40


@pytest.mark.parametrize("ids", [[3], [2, 9], [-1, 2]])
def test_impossible_inventories_are_refused(ids: list[int]) -> None:
    with pytest.raises(ArborvoxError, match="inventory"):
        restrict(make_layer("softmax", 7, seed=0), ids)


def test_more_results_than_units_are_refused() -> None:
    with pytest.raises(ArborvoxError, match=r"1\.\.2"):
        restrict(make_layer("softmax", 7, seed=0), [1, 2]).topk(torch.zeros(1, WIDTH).double(), 3)


@pytest.mark.parametrize("mode", SEARCHES)
@torch.no_grad()
def test_no_unit_outside_the_inventory_is_written(
    make_model: MakeModel, speech: Speech, mode: str
) -> None:
    model = make_model()
    free = SEARCHES[mode](Network(model), Network(model).encode(*speech))
    written = {token for found in free for token in found.tokens}
    inventory = [token for token in range(1, len(UNITS)) if token not in written][:2]
    network = Network(model, inventory=[0, *inventory])
    for found in SEARCHES[mode](network, network.encode(*speech)):
        assert set(found.tokens) <= set(inventory)


@pytest.mark.parametrize("mode", SEARCHES)
@torch.no_grad()
def test_inventory_of_all_units_changes_nothing(
    make_model: MakeModel, speech: Speech, mode: str
) -> None:
    model = make_model()
    free, restricted = Network(model), Network(model, inventory=range(1, len(UNITS)))
    wanted = SEARCHES[mode](free, free.encode(*speech))
    for found, same in zip(
        SEARCHES[mode](restricted, restricted.encode(*speech)), wanted, strict=True
    ):
        assert (found.tokens, found.frames) == (same.tokens, same.frames)
        assert found.score == pytest.approx(same.score, rel=1e-5)
        assert found.confidences == pytest.approx(same.confidences, rel=1e-5)


@torch.no_grad()
def test_ctc_scores_hold_the_inventory_and_the_blank_alone(
    make_model: MakeModel, speech: Speech
) -> None:
    model = make_model()
    free, restricted = Network(model), Network(model, inventory=[3, 5])
    whole = torch.from_numpy(free.ctc_scores(free.encode(*speech)).log_probs)
    scores = restricted.ctc_scores(restricted.encode(*speech))
    labels = [0, 3, 5, len(UNITS)]  # <eos>, the two units, the blank
    assert scores.labels.tolist() == labels
    assert scores.columns[labels].tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(
        torch.from_numpy(scores.log_probs), whole[..., labels].log_softmax(-1)
    )


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_inventory_allows_the_end_and_never_unk(tmp_path: Path, tokenizer: Tokenizer) -> None:
    ids = load_inventory(write(tmp_path / "i.txt", "a\nc\n\n"), tokenizer)
    assert [UNITS[token] for token in ids] == ["<eos>", "a", "c"]


def test_inventory_of_letters_allows_space_and_tags(tmp_path: Path) -> None:
    units = ("<eos>", "<unk>", "<ca>", "<es>", " ", "a", "é")
    tokenizer = Tokenizer("char", units, {"ca": (1,) * 7, "es": (1,) * 7}, language_tags=True)
    path = write(tmp_path / "i.txt", "e\u0301\n")  # decomposed
    ids = load_inventory(path, tokenizer)
    assert [units[token] for token in ids] == ["<eos>", "<ca>", "<es>", " ", "é"]


def test_units_that_the_model_lacks_are_named(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    load_inventory(write(tmp_path / "i.txt", "a\nʘ\n"), tokenizer)
    assert "1 of 2 units are not in the model: ʘ" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "lists no units"), ("x\ny\n", "none of its 2 units"), ("a b\n", "line 1: one unit")],
)
def test_useless_inventories_are_refused(
    tmp_path: Path, tokenizer: Tokenizer, text: str, message: str
) -> None:
    with pytest.raises(ArborvoxError, match=message):
        load_inventory(write(tmp_path / "i.txt", text), tokenizer)


def test_missing_inventory_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(ArborvoxError, match="no inventory"):
        load_inventory(tmp_path / "none.txt", tokenizer)


def test_corpus_inventory_is_read(data_root: Path, tokenizer: Tokenizer) -> None:
    ids = load_inventory(data_root / "ucla" / "abk" / "inventory" / "phone.txt", tokenizer)
    assert {"a", "b", "d"} <= {UNITS[token] for token in ids}
