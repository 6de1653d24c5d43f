"""`cbr compare`: in what recipes differ, and what came of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import played, recipe_text, results, write_run

from cbr_find.comparing import compare_runs


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Writes a run of the table of TWC by hand."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, variant: str, seed: int, *changes: str, seconds: float = 60.0) -> Path:
        recipe = recipe_text("twc.yaml", f"{variant}-level=easy-seed={seed}", *changes)
        found = results(seed, {"in": played(8.0 + seed, 0.9), "out": played(9.0, 0.8 - seed / 10)})
        found["training"] |= {"env_steps": 1000, "pretraining": {"steps": 50}}
        folder = write_run(Path(name), recipe, found)
        shares = {"agent": 0.5}
        (folder / "timing.json").write_text(json.dumps({"seconds": seconds, "shares": shares}))
        return folder

    return write


def test_only_settings_that_differ_are_told_by_path(make):
    one, two = make("one", "text_cbr", 0), make("two", "text_cbr", 1, "memory.threshold=0.5", "run.episodes=7")
    found = compare_runs([one, two])
    assert found.settings == {"seed": [0, 1], "memory.threshold": [0.7, 0.5], "run.episodes": [100, 7]}
    assert found.unset == frozenset()


def test_of_another_component_the_use_line_alone_is_told(make):
    found = compare_runs([make("one", "text_cbr", 0), make("two", "text_cbr", 0, "quantizer={use: cbr_lsh/lsh}")])
    assert found.settings == {"quantizer.use": ["cbr_vq/vq", "cbr_lsh/lsh"]}


def test_what_is_not_set_is_told_from_null(make, here):
    one, two = make("one", "text_cbr", 0), make("two", "text", 0)
    found = compare_runs([one, two])
    assert found.settings["memory.use"] == ["cbr_memory/case_memory", None]
    assert ("memory.use", 1) in found.unset
    (line,) = [line for line in here("compare", one, two).stdout.splitlines() if line.startswith("memory.use")]
    assert line.split(maxsplit=2) == ["memory.use", "cbr_memory/case_memory", "not set"]


def test_figures_stand_side_by_side_with_the_difference(make, here):
    done = here("compare", make("one", "text_cbr", 0), make("two", "text_cbr", 2, seconds=90.5))
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line[:24].strip(): line[24:].split() for line in done.stdout.splitlines()}
    assert rows["evaluation"] == ["one", "two", "difference"]
    assert rows["IN #steps"] == ["8.0", "10.0", "+2.0"]
    assert rows["OUT norm. score"] == ["0.80", "0.60", "-0.20"]
    assert rows["IN #steps (greedy)"] == ["18.0", "20.0", "+2.0"]
    assert rows["IN #steps (random)"] == ["40.0", "40.0", "+0.0"]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["score,", "last", "100", "10.0", "12.0", "+2.0"] in lines
    assert ["steps", "of", "pretraining", "50", "50", "+0"] in lines
    assert ["seconds", "60.0", "90.5", "+30.5"] in lines
    assert ["share", "of", "agent", "0.50", "0.50", "+0.00"] in lines


def test_three_runs_and_more_have_no_difference(make, here):
    folders = [make(name, "text_cbr", seed) for seed, name in enumerate("abc")]
    table = here("compare", *folders).stdout
    assert ["seed", "0", "1", "2"] in [line.split() for line in table.splitlines()]
    assert ["IN", "#steps", "8.0", "9.0", "10.0"] in [line.split() for line in table.splitlines()]
    assert "difference" not in table


def test_a_setting_in_which_the_second_and_the_third_differ_is_told(make):
    folders = [make("a", "text_cbr", 0), make("b", "text_cbr", 0, "agent={use: cbr_kga2c/scorer, hidden: 8}"),
               make("c", "text_cbr", 0, "agent={use: cbr_kga2c/scorer, hidden: 9}")]  # fmt: skip
    assert compare_runs(folders).settings["agent.hidden"][1:] == [8, 9]


def test_equal_recipes_are_said_to_be_equal(make, here):
    one = make("one", "text_cbr", 0)
    done = here("compare", one, one)
    assert "their recipes are the same" in done.stderr
    assert not done.stdout.startswith("setting")
    assert done.stdout.splitlines()[0].split() == ["evaluation", "one", "one", "difference"]


def test_runs_of_one_name_are_told_by_their_paths(make, here):
    Path("x").mkdir()
    Path("y").mkdir()
    done = here("compare", make("x/run", "text", 0), make("y/run", "text", 1))
    assert done.stdout.splitlines()[0].split() == ["setting", "x/run", "y/run"]


def test_json(make, here):
    folders = [make("one", "text_cbr", 0), make("two", "text", 0)]
    found = json.loads(here("compare", *folders, "--json").stdout)
    assert found["runs"] == ["one", "two"]
    assert found["settings"]["quantizer.use"] == ["cbr_vq/vq", None]
    assert ["quantizer.use", 1] in found["unset"]
    assert found["figures"]["evaluation"]["IN #steps"] == [8.0, 8.0]
    assert found["figures"]["timing"]["seconds"] == [60.0, 60.0]


def changed(run: Path, change) -> Path:
    found = json.loads((run / "results.json").read_text())
    change(found)
    (run / "results.json").write_text(json.dumps(found))
    return run


def test_a_run_that_was_measured_before_it_was_trained_to_its_end_is_noted(make, here):
    one, two = make("one", "text", 0, "run.episodes=3"), make("two", "text", 0)
    for run, plays in ((one, 3), (two, 7)):  # of one game: a pass is a play
        changed(run, lambda found, plays=plays: found["training"].update(episodes=plays))
    done = here("compare", one, two)
    said = (
        "two: measured before its training was over (after 7 of 100 game plays); go on with: cbr run --resume two"
    )
    assert done.stderr.count("note:") == 1
    assert said in done.stderr


def test_other_games_are_noted(make):
    one, two, three = (make(name, "text", 0) for name in ("one", "two", "three"))
    changed(three, lambda found: found["protocol"]["games"]["train"]["one"].update(sha256="0" * 64))
    assert compare_runs([one, two]).notes == []
    (note,) = compare_runs([one, two, three]).notes
    assert note == "not the same games as in one, in name or in content: three"


def test_figures_of_one_mode_stand_in_one_row(make):
    """One run plays sampled first, the other greedy: their numbers are compared mode by mode."""

    def other_way_round(found):
        for split, played_ in found["evaluation"].items():
            greedy = played_.pop("greedy") | {"mode": "greedy", "random": played_.pop("random")}
            found["evaluation"][split] = greedy | {"sampled": played_}

    one, two = make("one", "text", 0), changed(make("two", "text", 0), other_way_round)
    figures = compare_runs([one, two]).figures["evaluation"]
    assert figures["IN #steps (sampled)"] == [8.0, 8.0]
    assert figures["IN #steps (greedy)"] == [18.0, 18.0]
    assert figures["IN #steps (random)"] == [40.0, 40.0]
    assert "IN #steps" not in figures


def test_an_unfinished_run_and_a_damaged_file_are_noted(make, here):
    one, two, three = make("one", "text", 0), make("two", "text", 1), make("three", "text", 2)
    (two / "results.json").unlink()
    (three / "results.json").write_text('{"evaluation": {"in": 3}, "training": []}')
    (three / "timing.json").write_text("{")
    done = here("compare", one, two, three)
    assert done.returncode == 0
    assert "note: two: not finished (no results.json); go on with: cbr run --resume two" in done.stderr
    assert "note: three/timing.json: damaged" in done.stderr
    assert ["IN", "#steps", "8.0", "-", "-"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one"], "error: name two runs or more\n  cbr compare RUN RUN; which there are: cbr runs\n"),
        (["one", "nowhere"], "nowhere holds no run (no recipe.yaml)"),
        (["one", "broken"], "broken/recipe.yaml:1: "),
        (["one", "words"], "words/recipe.yaml holds no recipe"),
    ],
)
def test_wrong_input_is_told(make, here, words, said):
    make("one", "text", 0)
    (make("broken", "text", 0) / "recipe.yaml").write_text("a: [")
    (make("words", "text", 0) / "recipe.yaml").write_text("only words")
    done = here("compare", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
