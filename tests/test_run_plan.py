"""Laws of the plan: what is shared, what comes first, what cannot be."""

from pathlib import Path
from typing import Any

import pytest
from tiny_experiment import VARIANTS, write_recipe

from arborvox.config.migration import RECIPE_VERSION
from arborvox.decode.searches import SEARCHES
from arborvox.errors import ArborvoxError
from arborvox.files import write_json_atomic
from arborvox.pipeline.stages import RECORD_NAME, look_at
from arborvox.pipeline.variants import order_by_need, read_variants
from arborvox.pipeline.work_plan import Plan, make_plan


def plan_of(tmp_path: Path, *seeds: int, **sections: Any) -> Plan:
    recipe = write_recipe(tmp_path / "recipe.yaml", tmp_path / "table.jsonl", **sections)
    return make_plan(read_variants(recipe, ()), seeds or (0,), tmp_path / "out")


def names(plan: Plan, kind: str) -> list[str]:
    folders = [stage.folder for stage in plan.stages if stage.kind == kind]
    return [folder.relative_to(plan.out).as_posix() for folder in folders]


def test_variants_and_seeds_share_what_is_the_same(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 0, 1)
    assert names(plan, "prepare") == ["prepare"]
    assert names(plan, "tokens") == ["tokens"]
    assert names(plan, "tree") == ["trees/huffman"]
    assert len(names(plan, "train")) == len(names(plan, "score")) == 4


def test_softmax_alone_needs_no_tree(tmp_path: Path) -> None:
    assert names(plan_of(tmp_path, variants=VARIANTS[:1]), "tree") == []


def test_models_that_are_only_decoded_otherwise_are_trained_once(tmp_path: Path) -> None:
    variants = [
        {"name": "greedy", "set": {"decode.mode": "ctc-greedy"}},
        {"name": "beam", "set": {"decode.mode": "ctc-beam"}},
    ]
    plan = plan_of(tmp_path, variants=variants)
    assert names(plan, "train") == ["runs/greedy/seed-0/train"]
    assert len(names(plan, "decode")) == 2


def test_chosen_variants_have_the_folders_that_they_have_among_all(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        tmp_path / "table.jsonl",
        variants=[
            {"name": "greedy", "set": {"decode.mode": "ctc-greedy"}},
            {"name": "beam", "set": {"decode.mode": "ctc-beam"}},
            {"name": "next", "set": {"train.init_from": "greedy", "train.max_steps": 8}},
            {"name": "last", "set": {"train.init_from": "next", "train.max_steps": 9}},
        ],
    )

    def choose(*chosen: str) -> Plan:
        return make_plan(read_variants(recipe, ()), (0,), tmp_path / "out", chosen)

    beam = choose("beam")
    assert names(beam, "train") == ["runs/greedy/seed-0/train"]
    assert names(beam, "decode") == ["runs/beam/seed-0/decode-free"]
    last = choose("last")
    assert names(last, "train") == [
        f"runs/{name}/seed-0/train" for name in ("greedy", "next", "last")
    ]
    assert names(last, "score") == ["runs/last/seed-0/score-free"]
    with pytest.raises(ArborvoxError, match=r"--variants lst: .* it has greedy, beam, next, last"):
        choose("last", "lst")


def test_a_search_that_finds_something_else_is_decoded_again(tmp_path: Path) -> None:
    def versions() -> set[int]:
        plan = plan_of(tmp_path, decode={"mode": "attention-beam"}, model={"size": "tiny"})
        return {stage.version for stage in plan.stages if stage.kind == "decode"}

    assert versions() == {SEARCHES["attention-beam"].version}


def test_other_data_get_folders_of_their_own(tmp_path: Path) -> None:
    variants = [{"name": "one"}, {"name": "two", "set": {"corpus.seed": 7}}]
    plan = plan_of(tmp_path, variants=variants)
    assert names(plan, "prepare") == ["prepare", "prepare-two"]
    assert names(plan, "tokens") == ["tokens", "tokens-two"]
    assert names(plan, "tree") == ["trees/huffman", "trees/huffman-two"]


def test_data_keep_their_folder_when_a_variant_goes(tmp_path: Path) -> None:
    one, two = {"name": "one"}, {"name": "two", "set": {"corpus.seed": 7}}
    before = plan_of(tmp_path, variants=[one, two])
    for stage in before.prepares:
        stage.folder.mkdir(parents=True)
        facts = {"settings": stage.settings}
        record = {"stage": "prepare", "status": "done", "recipe": RECIPE_VERSION, "facts": facts}
        write_json_atomic(stage.folder / RECORD_NAME, record)
    assert names(plan_of(tmp_path, variants=[two]), "prepare") == ["prepare-two"]
    assert names(plan_of(tmp_path, variants=[two, one]), "prepare") == ["prepare-two", "prepare"]
    other = {"name": "two", "set": {"corpus.seed": 8}}
    assert names(plan_of(tmp_path, variants=[other]), "prepare") == ["prepare"]


def test_each_seed_draws_its_own_random_tree(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 0, 1, variants=[{"name": "chance", "set": {"tree.kind": "random"}}])
    assert names(plan, "tree") == ["trees/random-seed-0", "trees/random-seed-1"]
    assert len({str(s.settings) for s in plan.stages if s.kind == "tree"}) == 2


def test_an_embedding_tree_waits_for_its_model(tmp_path: Path) -> None:
    tree = {"tree.kind": "embedding", "tree.embedding_from": "softmax"}
    plan = plan_of(tmp_path, 0, 3, variants=[{"name": "embedding", "set": tree}, VARIANTS[0]])
    order = [stage.folder for stage in plan.stages]
    for seed in (0, 3):
        model = plan.out / f"runs/softmax/seed-{seed}/train"
        assert order.index(model) < order.index(plan.out / f"trees/embedding-seed-{seed}")


def test_a_pretrained_model_is_not_scored(tmp_path: Path) -> None:
    pretrain = {"name": "first", "role": "pretrain", "set": {"corpus.seed": 1}}
    plan = plan_of(
        tmp_path, variants=[{"name": "second", "set": {"train.init_from": "first"}}, pretrain]
    )
    assert names(plan, "train") == ["runs/first/seed-0/train", "runs/second/seed-0/train"]
    assert names(plan, "score") == ["runs/second/seed-0/score-free"]
    second = next(s for s in plan.stages if s.folder.parent.parent.name == "second")
    assert second.inputs["first weights"].is_relative_to(plan.out / "runs/first/seed-0/train")


def test_a_variant_with_a_seed_of_its_own_is_trained_once(tmp_path: Path) -> None:
    pretrain = {"name": "first", "role": "pretrain", "set": {"train.seed": 5}}
    second = {"name": "second", "set": {"train.init_from": "first"}}
    plan = plan_of(tmp_path, 0, 1, variants=[pretrain, second])
    assert names(plan, "train") == [
        "runs/first/seed-0/train",
        "runs/second/seed-0/train",
        "runs/second/seed-1/train",
    ]
    shared = {s.inputs["first weights"] for s in plan.stages if "first weights" in s.inputs}
    assert shared == {plan.out / "runs/first/seed-0/train/final/model.safetensors"}


def test_with_and_without_inventory_are_two_ways_of_decoding(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, variants=VARIANTS[:1], decode={"inventories": "both"})
    assert names(plan, "score") == [
        "runs/softmax/seed-0/score-free",
        "runs/softmax/seed-0/score-inventory",
    ]


def test_variants_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(ArborvoxError, match="a and b wait for each other"):
        order_by_need({"c": set(), "a": {"b"}, "b": {"a"}})


def test_a_variant_is_measured_against_another_that_is_scored(tmp_path: Path) -> None:
    one, taught = {"name": "one"}, {"name": "taught", "role": "pretrain"}
    plan = plan_of(tmp_path, variants=[one, {"name": "two", "against": "one"}])
    assert [leg.variant.config.against for leg in plan.legs] == [None, "one"]
    for wrong in ("two", "three", "taught"):
        message = f"variant two cannot be measured against {wrong}; other .* scored: one"
        with pytest.raises(ArborvoxError, match=message):
            plan_of(tmp_path, variants=[one, {"name": "two", "against": wrong}, taught])


def test_equal_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="two variants are called one"):
        plan_of(tmp_path, variants=[{"name": "one"}, {"name": "one"}])


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ([{"name": "one", "set": {"train.seed": 3}}], r"one sets train\.seed.*--seeds"),
        ([{"name": "one", "label": "two"}, {"name": "two"}], "two variants have the label two"),
        ([{"name": "my model"}], r"variants\.0\.name: a variant's name has a-z"),
        ([{"name": "one", "set": {"train.init_from": "oen"}}], r"oen is neither a variant"),
        ([{"name": "one", "set": {"tree.kind": "embedding"}}], r"one: .*tree\.embedding_from"),
        (
            [
                {"name": "one", "set": {"decode.inventories": "both"}},
                {"name": "two", "set": {"decode.inventories": "none"}},
                {"name": "three", "set": {"decode.inventories": "corpus"}},
            ],
            r"one, two, three cannot be compared: decode\.inventories",
        ),
        (
            [{"name": "one", "set": {"decode.mode": "joint", "model.decoder": "none"}}],
            "one: decode: There is no attention decoder",
        ),
        ([{"name": "one", "set": {"decode.lm": "no.arpa"}}], "one: decode: .*greedy cannot use"),
        (
            [{"name": "one", "set": {"decode.lm": "no.arpa", "decode.mode": "ctc-beam"}}],
            r"one: decode\.lm: there is no file no\.arpa",
        ),
        (
            [{"name": "one", "set": {"decode.lm": "no.arpa", "decode.transcripts_lm": 3}}],
            "variant one: .*lm is a file, transcripts_lm makes one",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(
    variants: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    variants[0].setdefault("set", {}).setdefault("model.decoder_layers", 0)
    variants[0]["set"].setdefault("model.decoder", "none")
    variants[0]["set"].setdefault("model.ctc_weight", 1.0)
    with pytest.raises(ArborvoxError, match=message):
        plan_of(tmp_path, variants=variants)


def test_a_language_model_is_an_input_of_decoding(tmp_path: Path) -> None:
    lm = tmp_path / "lm.arpa"
    lm.write_text("one")
    plan = plan_of(tmp_path, decode={"mode": "ctc-beam", "lm": str(lm)})
    for leg in plan.legs:
        assert leg.decodes["free"].inputs["language model"] == lm


def test_a_language_model_of_the_transcripts_is_made_once_and_decoded_with(tmp_path: Path) -> None:
    variants = [
        {"name": "without"},
        *({"name": f"order-{n}", "set": {"decode.transcripts_lm": n}} for n in (2, 3)),
        {"name": "other-units", "set": {"decode.transcripts_lm": 2, "tokens.unit": "char"}},
    ]
    plan = plan_of(tmp_path, 0, 1, variants=variants, decode={"mode": "ctc-beam"})
    assert names(plan, "lm") == ["lms/order-2", "lms/order-3", "lms/order-2-other-units"]
    for leg in plan.legs:
        made = leg.decodes["free"].inputs.get("language model")
        assert made == (None if leg.lm is None else leg.lm.folder / "lm.arpa")
    with pytest.raises(ArborvoxError, match="greedy cannot use a language model"):
        plan_of(tmp_path, variants=variants)


def test_a_mistake_in_a_variant_names_it(tmp_path: Path) -> None:
    message = r"recipe\.yaml: variant two: set model\.outptu.*model\.output"
    with pytest.raises(ArborvoxError, match=message):
        plan_of(tmp_path, variants=[{"name": "two", "set": {"model.outptu": "softmax"}}])


def test_an_unknown_key_of_a_variant_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"unknown key variants\.0\.lable.*variants\.0\.label"):
        plan_of(tmp_path, variants=[{"name": "one", "lable": "One"}])


def test_a_variant_may_choose_another_size(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, variants=[{"name": "big", "set": {"model.size": "small"}}])
    assert plan.legs[0].recipe.model.width == 192


def test_a_source_may_name_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_PLACE", raising=False)
    with pytest.raises(ArborvoxError, match=r"SOME_PLACE is not set.*export it"):
        plan_of(tmp_path, corpus={"source": "${SOME_PLACE}/table.jsonl"})
    monkeypatch.setenv("SOME_PLACE", str(tmp_path))
    plan = plan_of(tmp_path, corpus={"source": "${SOME_PLACE}/table.jsonl"})
    assert plan.legs[0].prepare.settings["source"] == str(tmp_path / "table.jsonl")


def test_names_that_only_case_tells_apart_are_equal(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="two variants are called one"):
        plan_of(tmp_path, variants=[{"name": "one"}, {"name": "One"}])


def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path) -> None:
    for name in ("con", "x" * 201, "one."):
        with pytest.raises(ArborvoxError, match=r"cannot be the name of a file|at most 200"):
            plan_of(tmp_path, variants=[{"name": name}])


def test_a_language_that_is_none_is_refused_before_any_work(tmp_path: Path) -> None:
    variants = [{"name": "one", "set": {"corpus.languages": ["es", "../../x"]}}]
    with pytest.raises(ArborvoxError, match=r"corpus\.languages: '../../x' is no language code"):
        plan_of(tmp_path, variants=variants)


def test_a_new_choice_left_alone_does_not_outdate_prepared_data(tmp_path: Path) -> None:
    """Prepared before `harakat` could be chosen: kept, unless it is dropped now."""
    variants = [{"name": "one"}, {"name": "two", "set": {"corpus.harakat": "drop"}}]
    kept, dropped = plan_of(tmp_path, variants=variants).prepares
    for stage in (kept, dropped):
        facts = look_at(stage).facts
        settings = {key: value for key, value in facts["settings"].items() if key != "harakat"}
        record = {"stage": "prepare", "status": "done", "recipe": RECIPE_VERSION}
        record["facts"] = {**facts, "settings": settings}
        write_json_atomic(stage.folder / RECORD_NAME, record)
    assert not set(look_at(kept).changed) - set(kept.outputs)
    assert "settings.harakat" in look_at(dropped).changed
