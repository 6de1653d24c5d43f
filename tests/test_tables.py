"""One sweep per table and figure of the paper, and the paper's numbers beside them."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from cbr_paper.paper import PaperCell, PaperTable, load_paper
from cbr_sweep.axes import VARIANTS, SweepRun, axes_of, expand
from cbrcore.config import Recipe
from cbrcore.cycle.evaluation import summarize
from cbrcore.errors import CbrError
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe

FOLDER = Path(__file__).parents[1] / "recipes"
PAPER = FOLDER / "tables" / "paper.yaml"
RECIPES = sorted(path.name for path in PAPER.parent.glob("*.yaml") if path != PAPER)
HEADER = re.compile(r"^# (\d+) runs x (\d+) (passes|steps): ", re.MULTILINE)

AGENTS = ["text", "tpc", "kga2c", "bike"]
EIGHT = ["detective", "inhumane", "snacktime", "karn", "zork1", "zork3", "enchanter", "spellbrkr"]


@cache
def registry():
    return load_plugins().registry


@cache
def recipe(name: str) -> Recipe:
    return load_recipe(PAPER.parent / name, registry=registry())


@cache
def runs(name: str) -> list[SweepRun]:
    return expand(recipe(name))


@cache
def run(name: str, run_id: str) -> Recipe:
    """The recipe of one run of a sweep."""
    (found,) = (each for each in runs(name) if each.id == run_id)
    return load_recipe(PAPER.parent / name, overrides=found.overrides, registry=registry())


@cache
def paper() -> dict[str, PaperTable]:
    return {table.id: table for table in load_paper(PAPER)}


def cells(table: PaperTable) -> list[PaperCell]:
    return list(chain.from_iterable(table.cells))


def texts(table: str, **words: str) -> list[str | None]:
    """The numbers of the cells that say these words, row by row; "level" and "game" are the environment's."""
    found = []
    for cell in cells(paper()[table]):
        of_cell = {axis.rpartition(".")[2]: word for axis, word in cell.choices.items()}
        of_cell |= {"split": cell.split, "cited": cell.cited, "metric": cell.metric.reads.split(".")[-2]}
        if all(of_cell.get(key) == word for key, word in words.items()):
            found.append(cell.value and cell.value.text)
    return found


# The sweeps


@pytest.mark.parametrize("name", RECIPES)
def test_the_header_says_what_the_sweep_costs(name):
    ((number, length, unit),) = HEADER.findall((PAPER.parent / name).read_text())
    assert len(runs(name)) == int(number)
    budget = recipe(name).run
    assert (budget.episodes if unit == "passes" else budget.env_steps) == int(length)


@pytest.mark.parametrize("name", RECIPES)
def test_the_header_cites_the_paper(name):
    text = (PAPER.parent / name).read_text()
    head = text.partition("\nschema:")[0]
    assert all(line.startswith("# ") for line in head.splitlines())
    assert re.search(r"\[P [^]]*(Table|Fig)", head)
    assert "\n# The paper: " in head
    assert recipe(name).name == name.removesuffix(".yaml")


def of_one_seed(name: str) -> list[SweepRun]:
    """One run of each combination of the other axes."""
    return [each for each in runs(name) if each.choices["seed"] == 0]


@pytest.mark.parametrize("name", RECIPES)
def test_the_runs_of_a_sweep_are_valid_recipes(name):
    """Combinations too: the check of the recipe itself tries each value alone."""
    assert len({each.id for each in runs(name)}) == len(runs(name))
    assert len(of_one_seed(name)) * len(axes_of(recipe(name))["seed"]) == len(runs(name))
    for each in [*of_one_seed(name), runs(name)[-1]]:
        found = run(name, each.id)
        assert (axes_of(found), found.seed) == ({}, each.choices["seed"])
        place = found.environment.settings
        where = {
            "environment.level": getattr(place, "level", None),
            "environment.game": getattr(place, "game", None),
        }
        assert all(where[axis] == word for axis, word in each.choices.items() if axis in where)


@pytest.mark.parametrize("name", RECIPES)
def test_variants_without_cbr_have_no_memory_and_the_others_do(name):
    for each in of_one_seed(name):
        assert run(name, each.id).uses_cases == ("cbr" in each.choices[VARIANTS]), each.id


def test_the_learning_curves_are_runs_of_the_main_table():
    few, many = ({each.id for each in runs(name)} for name in ("learning_curves.yaml", "twc.yaml"))
    assert few < many
    for run_id in (each.id for each in of_one_seed("learning_curves.yaml")):
        short, whole = run("learning_curves.yaml", run_id), run("twc.yaml", run_id)
        assert short.model_copy(update={"name": "twc"}) == whole


@pytest.mark.parametrize("variant", [*AGENTS, *(f"{agent}_cbr" for agent in AGENTS)])
def test_on_jericho_the_tables_run_what_the_single_recipes_run(variant):
    single = load_recipe(FOLDER / f"{variant}_jericho.yaml", registry=registry())
    swept = run("baselines_cbr_jericho.yaml", f"{variant}-game=zork1-seed=0")
    ours = {"name": single.name, "directory": single.directory}
    if "cbr" not in variant:  # no retriever, so nothing is pretrained
        ours["training"] = swept.training.model_copy(update={"pretrain": single.training.pretrain})
    assert swept.model_copy(update=ours) == single


@pytest.mark.parametrize("variant", ["cbr_only", *AGENTS, *(f"{agent}_cbr" for agent in AGENTS)])
def test_on_twc_the_tables_have_the_agents_of_the_single_recipes(variant):
    single = load_recipe(FOLDER / f"{variant}_twc.yaml", registry=registry())
    swept = run("twc.yaml", f"{variant}-level=easy-seed=0")
    for part in ("environment", "context_encoder", "quantizer", "memory", "retain_policy"):
        assert getattr(swept, part) == getattr(single, part)
    ours, theirs = (each.agent.settings.model_dump() for each in (swept, single))
    if "commonsense" in ours:  # one for all levels; the single recipe's is that of its level
        assert ours["commonsense"].pop("path") == "$CBR_GAMES/twc"
        assert theirs["commonsense"].pop("path") == "$CBR_GAMES/twc/easy"
    assert (swept.agent.use, ours) == (single.agent.use, theirs)


@pytest.mark.parametrize(
    ("name", "run_id", "says"),
    [
        ("ablation.yaml", "bike_cbr_entity-level=hard-seed=4", {"context_encoder": "cbr_entity/entity"}),
        ("ablation.yaml", "bike_cbr_continuous-level=easy-seed=0", {"quantizer": "cbr_continuous/continuous"}),
        ("entity.yaml", "cbr_only_entity-level=easy-seed=0", {"agent": "cbr_random/random"}),
        ("memory_access.yaml", "bike_cbr_rp-game=karn-seed=0", {"quantizer": "cbr_projection/rp"}),
        ("memory_access.yaml", "bike_cbr_srp-game=karn-seed=0", {"quantizer": "cbr_projection/srp"}),
        ("memory_access.yaml", "bike_cbr_lsh-game=karn-seed=0", {"quantizer": "cbr_lsh/lsh"}),
        ("memory_access.yaml", "bike_cbr-game=karn-seed=0", {"quantizer": "cbr_vq/vq"}),
        ("retain.yaml", "bike_cbr_td_error-game=karn-seed=0", {"retain_policy": "cbr_retain/td_error"}),
        ("retain.yaml", "bike_cbr_needed-game=karn-seed=0", {"retain_policy": "cbr_retain/needed"}),
        ("retain.yaml", "bike_cbr_rewarded_only-game=karn-seed=0", {"retain_policy": "cbr_retain/rewarded_only"}),
        ("mptr.yaml", "text_cbr_mptr-game=karn-seed=0", {"context_encoder": "cbr_mptr/mptr"}),
        ("joint_twc.yaml", "tpc_cbr_joint-level=hard-seed=0", {"agent": "cbr_joint/joint"}),
    ],
)
def test_a_variant_changes_the_part_that_it_is_about(name, run_id, says):
    found = run(name, run_id)
    assert {part: getattr(found, part).use for part in says} == says


def test_the_settings_that_the_paper_gives_for_its_variants():
    on_jericho = run("memory_access.yaml", "bike_cbr_continuous-game=karn-seed=0")
    assert (on_jericho.memory.settings.capacity, on_jericho.memory.settings.eviction) == (5000, "oldest")
    assert run("ablation.yaml", "bike_cbr_continuous-level=easy-seed=0").memory.settings.capacity is None
    assert run("memory_growth.yaml", "bike_cbr-seed=0").retain_policy.settings.k == 2
    assert run("retain.yaml", "bike_cbr_td_error-game=karn-seed=0").retain_policy.settings.k == 3
    assert run("retain.yaml", "bike_cbr-game=karn-seed=0").retain_policy.settings.k == 3
    assert run("twc.yaml", "bike_cbr-level=easy-seed=0").retain_policy.settings.k == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_the_joint_variants_are_around_the_agents_of_the_other_tables(agent):
    joint = run("joint_jericho.yaml", f"{agent}_cbr_joint-game=zork1-seed=0").agent.settings.agent
    assert joint == run("baselines_cbr_jericho.yaml", f"{agent}_cbr-game=zork1-seed=0").agent
    joint = run("joint_twc.yaml", f"{agent}_cbr_joint-level=hard-seed=0").agent.settings.agent
    assert joint == run("twc.yaml", f"{agent}_cbr-level=hard-seed=0").agent


# The paper's numbers beside the sweeps

NO_NUMBERS = {("jericho_33.yaml", "bike"), ("retain.yaml", "bike_cbr_needed")}
"""(recipe, choice) that the paper has no number for."""
OF_FIGURES = {"learning_curves.yaml", "memory_growth.yaml"}
"""Recipes of figures alone, whose numbers are not printed."""


def words_of_the_paper(name: str) -> set[tuple[str, str]]:
    """(axis, choice) of all cells of the tables that read this recipe."""
    tables = [table for table in paper().values() if table.recipe == name]
    return {pair for table in tables for cell in cells(table) for pair in cell.choices.items()}


def words_of_the_sweep(name: str) -> set[tuple[str, str]]:
    axes = {axis: choices for axis, choices in axes_of(recipe(name)).items() if axis != "seed"}
    return {(axis, str(choice)) for axis, choices in axes.items() for choice in choices}


@pytest.mark.parametrize("name", RECIPES)
def test_the_paper_and_the_sweep_use_the_same_words(name):
    ours, theirs = words_of_the_sweep(name), words_of_the_paper(name)
    assert theirs <= ours
    if name not in OF_FIGURES:
        assert {(name, word) for _, word in ours - theirs} == {pair for pair in NO_NUMBERS if pair[0] == name}


@pytest.mark.parametrize("name", RECIPES)
def test_every_sweep_is_of_a_table_or_figure(name):
    assert [table.id for table in paper().values() if table.recipe == name]


def test_a_cell_without_citation_is_the_mean_of_all_seeds_of_a_sweep():
    for table in paper().values():
        for cell in cells(table):
            if cell.cited is None:
                seeds = [
                    each.choices["seed"]
                    for each in runs(table.recipe)
                    if {axis: str(word) for axis, word in each.choices.items() if axis != "seed"} == cell.choices
                ]
                assert seeds == axes_of(recipe(table.recipe))["seed"], (table.id, cell)
    assert {cell.cited for cell in cells(paper()["jericho_33"])} >= {"TDQN", None}


def test_the_metrics_are_where_results_have_them():
    """An evaluation has these keys; the training score is `Experiment.results`'."""
    results = {"evaluation": {split: summarize([]) for split in ("in", "out")}}
    for table in paper().values():
        for cell in cells(table):
            if cell.metric.keys("in") != ("training", "avg_score_last_100"):
                inner = results
                for key in cell.metric.keys(cell.split or "out"):
                    inner = inner[key]
                assert inner is None


def test_every_choice_has_a_name_as_printed():
    for name in RECIPES:
        for variant in axes_of(recipe(name))[VARIANTS]:
            label = paper()["twc_in"].label(variant)
            assert label != variant
            assert ("CBR" in label) == ("cbr" in variant)
    assert paper()["twc_in"].label("zork1") == "zork1"


# The numbers themselves


def test_tables_and_figures_are_in_the_papers_order():
    numbers = defaultdict(list)
    for table in paper().values():
        kind, number = re.fullmatch(r"(?:App\. [A-J], )?(Table|Figure) (\d+)", table.where).groups()
        numbers[kind].append(int(number))
    assert numbers == {"Table": list(range(1, 15)), "Figure": list(range(2, 7))}
    letters = [table.where[5] for table in paper().values() if table.where.startswith("App.")]
    assert letters == sorted(letters)


SHAPES = {
    "twc_in": (9, 6),
    "twc_out": (9, 6),
    "jericho_33": (33, 8),
    "ablation": (4, 3),
    "baselines_cbr_jericho": (8, 8),
    "memory_access": (8, 5),
    "retain": (8, 3),
    "joint_twc": (8, 6),
    "joint_jericho": (8, 4),
    "mptr": (8, 4),
    "entity": (10, 6),
    "ood_gap": (9, 6),
    "additional_baselines": (33, 4),
}
FIGURES = {"learning_curves", "retriever_example", "reuse", "memory_growth", "tsne", "resources"}


def test_the_tables_have_the_papers_rows_and_columns():
    found = {table.id: (len(table.rows), len(table.columns)) for table in paper().values() if table.rows}
    assert found == SHAPES
    assert {table.id for table in paper().values() if not table.rows} == FIGURES
    assert all(len(row) == SHAPES[table.id][1] for table in paper().values() for row in table.cells)


def test_eight_games_are_in_the_papers_order():
    for table in ("baselines_cbr_jericho", "memory_access", "retain", "joint_jericho", "mptr"):
        assert [row["environment.game"] for row in paper()[table].rows] == EIGHT


@pytest.mark.parametrize(
    ("table", "words", "printed"),
    [
        ("twc_in", {"variants": "text", "level": "easy"}, ["23.83 ± 2.16", "0.88 ± 0.04"]),
        ("twc_in", {"variants": "bike_cbr", "level": "hard"}, ["45.21 ± 0.87", "0.42 ± 0.04"]),
        ("twc_in", {"variants": "kga2c", "metric": "norm_score"}, ["0.86 ± 0.06", "0.62 ± 0.03", "0.32 ± 0.00"]),
        ("twc_out", {"variants": "cbr_only", "metric": "steps"}, ["23.43 ± 2.09", "44.03 ± 1.75", "48.71 ± 1.15"]),
        ("twc_out", {"variants": "tpc", "level": "hard"}, ["50.00 ± 0.00", "0.19 ± 0.03"]),
        ("jericho_33", {"game": "905"}, ["1", "1", "0", "0", "0", "0", "0", "0"]),
        ("jericho_33", {"game": "dragon"}, ["25", "25", "-5.3", "-3.5", "0", "0.04", "4.84", "8.3"]),
        ("jericho_33", {"game": "gold"}, ["100", "30", "4.1", "0", None, "0", "0", "2.1"]),
        ("jericho_33", {"game": "zork1", "cited": "RC-DQN"}, ["38.8"]),
        ("jericho_33", {"game": "tryst205"}, ["350", "50", "0", "9.6", None, "10", "10", "13.4"]),
        ("ablation", {"split": "in", "variants": "bike_cbr_continuous", "level": "hard"}, ["49.21 ± 0.55"]),
        ("ablation", {"split": "out", "variants": "bike_cbr_entity", "level": "easy"}, ["18.15 ± 1.51"]),
        ("baselines_cbr_jericho", {"game": "zork3"}, ["0.1", "1.7", "0", "1.6", "1.7", "1.9", "2.5", "3.2"]),
        ("baselines_cbr_jericho", {"game": "spellbrkr", "variants": "tpc_cbr"}, ["40.2"]),
        ("memory_access", {"game": "enchanter"}, ["10.2", "9.2", "10.6", "35.3", "36.3"]),
        ("memory_access", {"game": "zork3", "variants": "bike_cbr_lsh"}, ["3.6"]),
        ("retain", {"game": "snacktime"}, ["20.3", "23.4", "22.1"]),
        ("joint_twc", {"split": "in", "variants": "text_cbr_joint", "level": "medium"},
         ["40.22 ± 1.70", "0.65 ± 0.05"]),
        ("joint_twc", {"split": "out", "variants": "bike_cbr_joint", "level": "medium"},
         ["35.77 ± 1.05", "0.69 ± 0.05"]),
        ("joint_jericho", {"game": "spellbrkr"}, ["32.3", "33.3", "39.2", "41.8"]),
        ("mptr", {"game": "detective"}, ["245.2", "233.7", "302.3", "321.2"]),
        ("entity", {"split": "in", "variants": "cbr_only_entity", "level": "easy"},
         ["22.70 ± 2.05", "0.81 ± 0.07"]),
        ("entity", {"split": "out", "variants": "kga2c_cbr_entity", "level": "hard"},
         ["46.89 ± 2.21", "0.37 ± 0.03"]),
        ("ood_gap", {"variants": "text"}, ["6.07", "0.10", "1.82", "0.05", "0.16", "0.10"]),
        ("ood_gap", {"variants": "bike_cbr"}, ["1.43", "0.02", "0.21", "0.00", "0.70", "0.02"]),
        ("additional_baselines", {"game": "library"}, ["10.0", "17", "17", "22.3"]),
        ("additional_baselines", {"game": "zork1", "cited": "DBERT-DRRN"}, ["44.7"]),
        ("additional_baselines", {"game": "sorcerer"}, [None, None, None, "24.5"]),
    ],
)  # fmt: skip
def test_numbers_are_as_printed(table, words, printed):
    assert texts(table, **words) == printed


def test_a_number_is_its_mean_and_its_deviation():
    first = cells(paper()["twc_in"])[0].value
    assert (first.mean, first.std) == (23.83, 2.16)
    assert cells(paper()["retain"])[0].value.std is None
    assert cells(paper()["retain"])[0].value.mean == 324.1


# What the paper says about its own numbers


def test_the_gap_is_the_difference_of_the_first_two_tables():
    for inside, out, gap in zip(
        *(cells(paper()[table]) for table in ("twc_in", "twc_out", "ood_gap")), strict=True
    ):
        assert inside.choices == out.choices == gap.choices
        assert (inside.split, out.split, gap.split, gap.metric.gap) == ("in", "out", None, True)
        assert inside.metric.reads == gap.metric.reads
        assert abs(out.value.mean - inside.value.mean) == pytest.approx(gap.value.mean, abs=1e-6)


def test_the_best_agents_on_jericho_are_as_often_the_best_as_the_paper_counts():
    best, alone = [0] * 6, 0
    for row in paper()["jericho_33"].cells:
        scores = [cell.value.mean if cell.value else float("-inf") for cell in row[2:]]
        winners = [score == max(scores) for score in scores]
        best = [count + winner for count, winner in zip(best, winners, strict=True)]
        alone += winners[-1] and sum(winners) == 1
    assert (best, alone) == ([6, 6, 5, 12, 10, 24], 18)


@pytest.mark.parametrize("table", ["baselines_cbr_jericho", "memory_access", "retain"])
def test_bike_with_cbr_has_the_same_scores_in_every_table(table):
    main = [texts("jericho_33", game=game, variants="bike_cbr")[0] for game in EIGHT]
    assert texts(table, variants="bike_cbr") == main


def test_the_additional_baselines_stand_beside_the_same_scores():
    assert texts("additional_baselines", variants="bike_cbr") == texts("jericho_33", variants="bike_cbr")
    assert texts("baselines_cbr_jericho", variants="kga2c") == [
        texts("jericho_33", game=game, cited="KG-A2C")[0] for game in EIGHT
    ]


def test_without_gat_is_the_entity_variant():
    for split in ("in", "out"):
        words = {"split": split, "variants": "bike_cbr_entity", "metric": "steps"}
        assert texts("ablation", **(words | {"metric": "steps"})) == texts("entity", **words)


# The loader

FILE = """
schema: 1
metrics:
  steps: {title: Steps, better: lower, reads: "evaluation.{split}.steps.mean"}
  score: {title: Score, better: higher, reads: training.score}
labels: {bike: BiKE}
tables:
- id: one
  where: Table 1
  title: A table
  recipe: twc.yaml
  metric: steps
  columns: [{environment.level: easy}, {environment.level: hard}]
  rows:
  - {split: in, variants: bike, numbers: [1.50 ± 0.20, null]}
"""


def loaded(tmp_path: Path, text: str) -> list[PaperTable]:
    (tmp_path / "twc.yaml").touch()
    (tmp_path / "paper.yaml").write_text(text)
    return load_paper(tmp_path / "paper.yaml")


def test_a_file_becomes_cells(tmp_path):
    (table,) = loaded(tmp_path, FILE)
    ((easy, hard),) = table.cells
    assert easy.choices == {"variants": "bike", "environment.level": "easy"}
    assert (easy.split, easy.cited, easy.metric.keys("in")) == ("in", None, ("evaluation", "in", "steps", "mean"))
    assert (easy.value.text, easy.value.mean, easy.value.std) == ("1.50 ± 0.20", 1.5, 0.2)
    assert hard.value is None
    assert (table.rows, table.columns[0]) == (
        ({"split": "in", "variants": "bike"},),
        {"environment.level": "easy"},
    )
    assert (table.label("bike"), table.label("easy")) == ("BiKE", "easy")


WRONG = [
    ("schema: 1", "schema: 2", "schema: Input should be '1'"),
    ("better: higher", "better: more", "metrics.score.better: Input should be 'lower' or 'higher'"),
    ("training.score", "training/score", "metrics.score.reads: String should match pattern"),
    ("  title: A table\n", "", "tables.one.title: Field required"),
    ("  where:", "  were:", "tables.one.were: Extra inputs are not permitted"),
    ("  where:", "  title: Again\n  where:", "'title' is given twice"),
    ("recipe: twc.yaml", "recipe: tcw.yaml", "no recipe 'tcw.yaml'"),
    ("recipe: twc.yaml", "recipe: tcw.yaml", "Did you mean 'twc.yaml'?"),
    ("  recipe: twc.yaml\n", "", "row 1: column 2: whose number is it? Add cited: NAME, or a recipe"),
    ("metric: steps", "metric: step", "row 1: column 1: no metric 'step'. Did you mean 'steps'?"),
    ("  metric: steps\n", "", "no metric is given; add metric: NAME"),
    ("split: in, ", "", "the metric 'steps' is of a split; add split: in or split: out"),
    (", null]", "]", "row 1: needs numbers: [...], one for each of the 2 columns"),
    (", numbers: [1.50 ± 0.20, null]", "", "row 1: needs numbers"),
    ("1.50 ± 0.20", "1.50 +- 0.20", "'1.50 +- 0.20' is no number; write 1.5, 1.50 ± 0.25 or null"),
    ("variants: bike", "variants: [bike]", "row 1: 'variants' must be a single word"),
    ("level: hard", "level: easy", "2 numbers for one cell, environment.level: easy, metric: steps"),
    ("level: hard", "level: hard, split: out", "column 2: 'split' is said twice"),
    (
        "  rows:\n  - {split: in, variants: bike, numbers: [1.50 ± 0.20, null]}\n",
        "",
        "has neither rows nor 'says'",
    ),
    ("- id: one", "- {id: one, where: W, title: T, says: S}\n- id: one", "tables: the id 'one' is given twice"),
    ("tables:", "tables: [", "is not YAML"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_what_is_wrong_with_a_file_is_said(tmp_path, old, new, says):
    assert FILE.count(old) == 1
    with pytest.raises(CbrError) as caught:
        loaded(tmp_path, FILE.replace(old, new))
    assert says in str(caught.value)
    assert str(tmp_path / "paper.yaml") in caught.value.message
    assert caught.value.hint == "mend paper.yaml; its head documents the format"


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    with pytest.raises(CbrError) as caught:
        loaded(
            tmp_path, FILE.replace("metric: steps", "metric: step").replace("1.50", "x").replace("twc.y", "t.y")
        )
    assert len(caught.value.message.splitlines()) == 4


@pytest.mark.parametrize("content", [b"", b"- 1", b"schema", b"\xff\xfe\x00", b"{[a]: 1}"])
def test_what_is_no_such_file_is_an_error_not_a_traceback(tmp_path, content):
    (tmp_path / "paper.yaml").write_bytes(content)
    with pytest.raises(CbrError):
        load_paper(tmp_path / "paper.yaml")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CbrError, match=r"none\.yaml: cannot be read: No such file"):
        load_paper(tmp_path / "none.yaml")
