"""What does not compare is never mixed in a table without a mark and a remark in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_runs import TABLES, played, plugins, recipe_text, results, write_run

from cbr_paper.belong import Paper, read_paper
from cbr_paper.compared import paper_tables
from cbr_report.comparisons import comparison_tables
from cbr_report.folders import read_folders
from cbr_report.names import OwnWords, name_runs
from cbr_report.page import best_cells
from cbr_report.results import result_tables
from cbr_report.runs import Group, Runs, group
from cbr_report.write import write_report
from cbrcore import Table

HASHES = {"sha256": "ab" * 32, "sha256_z8": "cd" * 32, "textworld": "1.7.0", "max_score": 3, "optimal_steps": 5}
Change = Callable[[dict[str, Any]], Any]


def a_run(folder: Path, variant: str, seed: int = 0, *, change: Change | None = None, settings=()) -> Path:
    """A run on three games with hashes, with a change of its results."""
    found = results(seed, {"in": played(10.0 + seed, 0.9), "out": played(12.0, 0.8)})
    found["protocol"]["games"] = {
        "train": {"one": dict(HASHES)}, "in": {"one": dict(HASHES)}, "out": {"two": HASHES | {"sha256": "12" * 32}}
    }  # fmt: skip
    if change is not None:
        change(found)
    text = recipe_text("twc.yaml", f"{variant}-level=easy-seed={seed}", *settings)
    run = write_run(folder / f"{variant}-{seed}{'-other' if change or settings else ''}", text, found)
    versions = {"python": "3.11.7", "plugins": {"cbr_twc": found.pop("plugin", "cbr-textrl 1.0")}}
    (run / "versions.json").write_text(json.dumps(versions))
    return run


def read(*folders: Path) -> tuple[list[Group], list[str]]:
    found = read_folders(folders)
    runs = Runs(group(found.runs), plugins())
    name_runs(runs, OwnWords())
    return runs.groups, found.notes


def tables_of(groups: list[Group]) -> dict[str, Table]:
    return {table.id: table for table in (*result_tables(groups), *comparison_tables(groups))}


def game(found: dict[str, Any], split: str = "out", name: str = "two") -> dict[str, Any]:
    facts: dict[str, Any] = found["protocol"]["games"][split][name]
    return facts


def renamed(games: dict[str, Any]) -> None:
    games["three"] = games.pop("two")


OTHER_GAMES: dict[str, Change] = {
    "another content": lambda found: game(found).update(sha256="34" * 32),
    "its last letter": lambda found: game(found).update(sha256="12" * 31 + "13"),
    "another story file": lambda found: game(found, "train", "one").update(sha256_z8="ef" * 32),
    "another maximum": lambda found: game(found).update(max_score=4),
    "another name": lambda found: renamed(found["protocol"]["games"]["out"]),
    "one game more": lambda found: found["protocol"]["games"]["in"].update(three=dict(HASHES)),
    "unknown": lambda found: found["protocol"].pop("games"),
}  # fmt: skip


@pytest.mark.parametrize("change", OTHER_GAMES.values(), ids=OTHER_GAMES)
@pytest.mark.parametrize("other", ["bike", "text"])
def test_runs_of_other_games_stand_at_places_of_their_own(tmp_path, change, other):
    """Whether it is another agent, or another seed of the same one."""
    runs = [a_run(tmp_path, "bike"), a_run(tmp_path, other, 1, change=change)]
    groups, _ = read(*runs)
    assert [len(each.runs) for each in groups] == [1, 1]
    tables = tables_of(groups)
    assert len({row[0] for row in tables["results"].rows}) == 2
    assert best_cells(tables["results"]) == set()
    assert not any(id_.startswith("improvement") for id_ in tables)
    for table in (tables["results"], tables["intervals"]):
        (remark,) = table.remarks
        assert "are not compared: other games: " in remark
        assert all(run.name in remark for run in runs)
    assert any(name in remark for name in ("out/two", "train/one", "out/three", "in/three"))


@pytest.mark.parametrize(
    ("name", "changes"), [("max_steps", "30"), ("graph", "full"), ("drop_commands", "[examine, look]")]
)
def test_runs_with_other_settings_of_the_environment_stand_at_places_of_their_own(tmp_path, name, changes):
    """Step limits and handicaps by the recipe."""
    runs = [a_run(tmp_path, "bike"), a_run(tmp_path, "text", settings=[f"environment.{name}={changes}"])]
    tables = tables_of(read(*runs)[0])
    assert len({row[0] for row in tables["results"].rows}) == 2
    (remark,) = tables["results"].remarks
    assert f"are not compared: other settings ({name} " in remark
    assert all(run.name in remark for run in runs)


def drop_split(found: dict[str, Any]) -> None:
    del found["evaluation"]["in"]


def stopped(found: dict[str, Any]) -> None:
    found["training"] |= {"episodes": 7, "env_steps": 300}


OTHER_PROTOCOL: dict[str, tuple[Change, str]] = {
    "splits": (drop_split, "evaluated splits: in, out: {}; out: {}"),
    "passes": (lambda found: found["protocol"].update(evaluation_passes=3), "evaluation passes: 5: {}; 3: {}"),
    "passes unknown": (
        lambda found: found["protocol"].pop("evaluation_passes"),
        "evaluation passes: 5: {}; unknown: {}",
    ),
    "mode": (
        lambda found: [each.update(mode="greedy") for each in found["evaluation"].values()],
        "actions: sampled: {}; greedy: {}",
    ),
    "engine": (
        lambda found: [
            facts.update(textworld="1.6.2")
            for split in found["protocol"]["games"].values()
            for facts in split.values()
        ],
        "environment: cbr-textrl 1.0, textworld 1.7.0: {}; cbr-textrl 1.0, textworld 1.6.2: {}",
    ),
    "plugin": (
        lambda found: found.update(plugin="cbr-textrl 0.9"),
        "environment: cbr-textrl 1.0, textworld 1.7.0: {}; cbr-textrl 0.9, textworld 1.7.0: {}",
    ),
    "stopped": (stopped, "training: to the end: {}; stopped after 7 of 100 game plays: {}"),
    "schema": (lambda found: found.pop("schema"), "schema of results.json: 1: {}; unknown: {}"),
}


@pytest.mark.parametrize(("change", "says"), OTHER_PROTOCOL.values(), ids=OTHER_PROTOCOL)
def test_agents_that_were_not_measured_alike_are_marked(tmp_path, change, says):
    groups, _ = read(a_run(tmp_path, "bike"), a_run(tmp_path, "text", change=change))
    tables = tables_of(groups)
    bike, text = (each.agent for each in groups)
    remark = f"easy: not measured alike: {says.format(bike, text)}"
    for name in ("results", "intervals", "improvement_0"):
        assert remark in tables[name].remarks
    column = [each.title for each in tables["results"].columns].index("Protocol")
    assert [row[column] for row in tables["results"].rows[:2]] == ["A", "B"]
    assert best_cells(tables["results"]) == set()
    assert [row[0] for row in tables["improvement_0"].rows] == [f"{bike} [A]", f"{text} [B]"]


@pytest.mark.parametrize(("change", "says"), OTHER_PROTOCOL.values(), ids=OTHER_PROTOCOL)
def test_seeds_of_one_recipe_that_were_not_measured_alike_are_not_one_mean(tmp_path, change, says):
    groups, _ = read(
        a_run(tmp_path, "bike"), a_run(tmp_path, "bike", 1), a_run(tmp_path, "bike", 2, change=change)
    )
    assert sorted(len(each.runs) for each in groups) == [1, 2]
    assert len({each.agent for each in groups}) == 2
    assert any("not measured alike" in remark for remark in tables_of(groups)["results"].remarks)


def test_other_handicaps_are_marked_and_the_best_is_told_all_the_same(tmp_path):
    def commonsense(found: dict[str, Any]) -> None:
        found["protocol"]["handicaps"]["commonsense"] = "made of the games"

    groups, _ = read(a_run(tmp_path, "bike", change=commonsense), a_run(tmp_path, "text", 1))
    bike, text = (each.agent for each in groups)
    table = tables_of(groups)["results"]
    assert table.remarks == (
        f"easy: not the same handicaps: commonsense: made of the games: {bike}; none: {text}",
    )
    column = [each.title for each in table.columns].index("Handicaps")
    assert [row[column] for row in table.rows[:2]] == ["1", "2"]
    assert best_cells(table) != set()  # agents may differ in what they know


def test_a_run_that_was_measured_in_mid_training_is_said_to_be_one(tmp_path):
    groups, _ = read(a_run(tmp_path, "bike", change=stopped))
    assert tables_of(groups)["results"].remarks == (
        "easy: measured before the training was over: stopped after 7 of 100 game plays: twc",
    )


def test_runs_that_compare_have_no_remark_and_no_mark(tmp_path):
    groups, notes = read(*(a_run(tmp_path, name, seed) for name in ("bike", "text") for seed in (0, 1)))
    assert [len(each.runs) for each in groups] == [2, 2]
    assert notes == []
    for table in tables_of(groups).values():
        assert table.remarks == ()
        assert not {"Protocol", "Handicaps", "Training"} & {column.title for column in table.columns}


def paper_table(*folders: Path) -> Table:
    runs = Runs(group(read_folders(folders).runs), plugins())
    numbers: Paper = read_paper(TABLES / "paper.yaml", runs.groups, plugins())
    name_runs(runs, numbers)
    (table,) = (table for table in paper_tables(numbers) if table.id == "paper_twc_in")
    return table


def test_beside_the_paper_it_is_said_too(tmp_path):
    change, _ = OTHER_PROTOCOL["passes"]
    table = paper_table(a_run(tmp_path, "bike"), a_run(tmp_path, "text", change=change))
    assert table.remarks[0] == "Easy: not measured alike: evaluation passes: 3: Text; 5: BiKE"
    assert {row[0]: row[2] for row in table.rows if "[" in row[2]} == {
        "Text": "10.00 (1) [A]",
        "BiKE": "10.00 (1) [B]",
    }
    other = a_run(tmp_path / "games", "text", change=OTHER_GAMES["another content"])
    assert "are not compared: other games: out/two (" in " ".join(paper_table(tmp_path / "bike-0", other).remarks)


@pytest.mark.parametrize("passes", [100, 7])
def test_the_best_of_ours_is_told_where_all_were_trained_for_as_long(tmp_path, passes):
    """What is played before, to pretrain a retriever, belongs to an agent with cases."""

    def worse(found):
        found["evaluation"]["in"]["steps"]["mean"] = 20.0

    def pretrained(found):
        found["training"]["pretraining"] = {"steps": 30, "plays": 4}

    other = a_run(tmp_path, "text", settings=[f"run.episodes={passes}"], change=worse)
    table = paper_table(a_run(tmp_path, "bike_cbr", change=pretrained), other)
    ours = {column for column, each in enumerate(table.columns) if each.kind.startswith("ours")}
    marked = {
        (table.rows[row][0], table.columns[column].kind) for row, column in best_cells(table) if column in ours
    }
    assert bool(marked) == (passes == 100)
    assert ("BiKE + CBR", "ours lower") in marked or passes == 7
    assert "among agents of one budget" not in " ".join(table.remarks)


def test_the_command_says_it_and_the_page_shows_it(tmp_path, cbr):
    runs = [a_run(tmp_path, "bike"), a_run(tmp_path, "text", change=OTHER_GAMES["another content"])]
    told = cbr("report", *runs, "--out", tmp_path / "page.html", "--no-decisions")
    assert told.returncode == 0, told.stderr
    assert "are not compared: other games: out/two (" in told.stderr
    assert "are not compared: other games: out/two (" in (tmp_path / "page.html").read_text()
    assert "Not all agents compare" in (tmp_path / "page.html").read_text()


REASONS = {-5: "the game's maximum is -5", 0: "the game's maximum is 0", None: "the game tells no maximum"}


@pytest.mark.parametrize(("best", "why"), REASONS.items())
def test_a_normalized_score_that_is_not_there_is_said_to_be_so(tmp_path, best, why):
    def some(found: dict[str, Any]) -> None:
        game(found)["max_score"] = best
        for split, share in (("in", 0.5), ("out", None)):
            found["evaluation"][split]["games"] = {"one": {"norm_score": 0.5}, "two": {"norm_score": share}}
        found["evaluation"]["out"]["norm_score"]["games"] = 1

    groups, _ = read(a_run(tmp_path, "bike", change=some))
    table = tables_of(groups)["results"]
    assert table.remarks == (f"easy: OUT norm. score of two: not available: {why}",)
    assert table.rows[0][-1] == "0.80 (1 of 2 games)"
    assert table.rows[0][-3] == "0.90"


def test_no_share_at_all_leaves_a_dash_for_everybody(tmp_path):
    def none(found: dict[str, Any]) -> None:
        game(found)["max_score"] = -5
        out = found["evaluation"]["out"]
        for each in (out, out["greedy"], out["random"]):
            each["norm_score"] = {"mean": None, "std": None}
            each["score"] = {"mean": -2.0, "std": 0.5}
        out["games"] = {"two": {"norm_score": None}}

    run = a_run(tmp_path, "bike", change=none)
    table = tables_of(read(run)[0])["results"]
    assert [row[-1] for row in table.rows] == ["–", "–", "–"]
    written = write_report([run], plugins(), out=tmp_path / "page.html", decisions=False)
    assert "not available: the game&#39;s maximum is -5" in written.page.read_text()
