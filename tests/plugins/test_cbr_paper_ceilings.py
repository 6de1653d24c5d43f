"""The report's page of the Jericho games: by protocol, beside the ceiling, the paper and the best published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import TABLES, played, plugins, recipe_text, results, write_run

from cbr_paper.belong import read_paper
from cbr_paper.ceilings import BEST_PUBLISHED, known_games, of_jericho
from cbr_report.folders import read_folders
from cbr_report.names import name_runs
from cbr_report.runs import Runs, group
from cbrcore import Section

P2 = {"protocol": "P2: a seed for each episode"}


def section_of(folder: Path) -> Section | None:
    runs = Runs(group(read_folders([folder]).runs), plugins())
    name_runs(runs, read_paper(TABLES / "paper.yaml", runs.groups, plugins()))
    return of_jericho(runs)


def add_run(folder: Path, game: str, seed: int, *changes: str, score: float = 0.1, handicaps: dict | None = None):
    text = recipe_text("jericho_33.yaml", f"bike_cbr-game={game}-seed=0", f"seed={seed}", *changes)
    found = results(seed, {"train": played(100, score)}, game={"initial_score": 0, "max_score": 350})
    found["protocol"]["handicaps"] |= handicaps or {}
    write_run(folder / f"{game}-{seed}-{len(changes)}", text, found)


def test_scores_by_hand(tmp_path):
    """P1: 10 and 11 in two runs at zork1 (maximum 350, ceiling 102), 10 in one at pentari (70; 60)."""
    for game, seed in (("zork1", 0), ("zork1", 1), ("pentari", 0)):
        add_run(tmp_path / "runs", game, seed)
    section = section_of(tmp_path / "runs")
    games, means = section.parts
    assert games.rows == (
        ("pentari", "BiKE + CBR", "10.0", "–", "20", "0.5", "60", "0.17", "70", "52.1", "52.1", "70.0"),
        ("zork1", "BiKE + CBR", "10.5 ± 0.7", "–", "21", "0.5", "102", "0.10", "350", "44.3", "44.3", "103.4"),
    )
    ((agent, protocol, count, *shares),) = means.rows
    assert (agent, protocol, count) == ("BiKE + CBR", "P1", "2")
    by_hand = [(10 / 70 + 10.5 / 350), (52.1 / 70 + 44.3 / 350), (52.1 / 70 + 44.3 / 350), (1 + 103.4 / 350)]
    assert shares[:4] == [f"{each / 2:.1%}" for each in by_hand]
    assert shares[4] == f"{(60 / 70 + 102 / 350) / 2:.1%}"


def test_the_protocols_stand_apart(tmp_path):
    add_run(tmp_path / "runs", "zork1", 0)
    add_run(tmp_path / "runs", "zork1", 0, "environment.seed=episode", score=7.25, handicaps=P2)
    games, means = section_of(tmp_path / "runs").parts
    assert sorted(row[2:4] for row in games.rows) == [("10.0", "–"), ("–", "7.2")]
    assert sorted(row[1] for row in means.rows) == ["P1", "P2"]
    assert f"{7.25 / 350:.1%}" in {row[3] for row in means.rows}


def test_ways_to_play_stand_apart(tmp_path):
    """One agent at one game with 100 and with 400 steps: two rows, and two means."""
    add_run(tmp_path / "runs", "zork1", 0)
    add_run(tmp_path / "runs", "zork1", 3, "environment.max_steps=400")
    games, means = section_of(tmp_path / "runs").parts
    for table, at in ((games, 2), (means, 3)):
        scores = {row[0 if table is means else 1]: row[at] for row in table.rows}
        shown = ("10.0", "13.0") if table is games else (f"{10 / 350:.1%}", f"{13 / 350:.1%}")
        assert scores == {"BiKE + CBR (max_steps 100)": shown[0], "BiKE + CBR (max_steps 400)": shown[1]}
        assert any("other settings (max_steps 100 / 400)" in remark for remark in table.remarks)


def test_a_run_that_was_stopped_is_remarked(tmp_path):
    add_run(tmp_path / "runs", "zork1", 0)
    (run,) = (tmp_path / "runs").iterdir()
    found = json.loads((run / "results.json").read_text())
    found["training"] |= {"env_steps": 160}
    (run / "results.json").write_text(json.dumps(found))
    for table in section_of(tmp_path / "runs").parts:
        assert any("160 of 100000 steps" in remark for remark in table.remarks)


def test_other_games_have_no_such_page(tmp_path):
    text = recipe_text("twc.yaml", "bike-level=easy-seed=0")
    write_run(tmp_path / "runs" / "one", text, results(0, {"in": played(10, 0.9), "out": played(12, 0.8)}))
    assert section_of(tmp_path / "runs") is None


def test_all_games_of_the_paper_are_known(tmp_path):
    paper = read_paper(TABLES / "paper.yaml", [], plugins())
    known = known_games(paper)
    assert known.keys() == BEST_PUBLISHED.keys()
    assert len(known) == 33
    assert all(each.ceiling <= each.maximum for each in known.values())
    best = sum(each.paper_best / each.maximum for each in known.values()) / 33
    assert best == pytest.approx(0.236, abs=0.001)
    assert sum(BEST_PUBLISHED[game] / each.maximum for game, each in known.items()) / 33 == pytest.approx(
        0.367, abs=0.001
    )
