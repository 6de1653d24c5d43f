"""`cbr bench`: what it measures is what it says, and what cannot be measured is told."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest
import torch

from cbr_bench import children, measures, retrieval
from cbr_bench.children import cost, recipe_file, trained
from cbr_bench.figures import COLUMNS, Figure, machine, median_ms, processor, shown
from cbr_bench.measures import MEASURES, Setting, chosen
from cbrcore import CbrError
from cbrcore.errors import RunFailed

BUSY = "import time\nwhile time.process_time() < 0.5: pass"


def test_a_ratio_is_the_first_by_the_second():
    figure = Figure("ours", 150.0, "steps/s", "theirs", 2.5)
    assert figure.ratio == 60
    assert figure.row() == ["ours", "150 steps/s", "theirs", "2.5 steps/s", "60"]
    assert len(figure.row()) == len(COLUMNS)
    assert figure.data()["ratio"] == 60
    alone = Figure("share", 0.25, "of all")
    assert alone.ratio is None
    assert alone.row() == ["share", "0.25 of all", "", "", ""]


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123 s"), (99.96, "100 s"), (12345.6, "12,346 s"), (3.14159, "3.14 s")]
)
def test_three_digits_count(value, text):
    assert shown(value, "s") == text


def test_the_machine_is_told(tmp_path):
    about = machine()
    assert about["cores"] == os.cpu_count()
    assert about["torch"] == torch.__version__
    assert about["memory_gib"] > 0
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast One\nmodel name\t: Fast One\n")
    assert processor(tmp_path / "cpuinfo") == "Fast One"
    assert processor(tmp_path / "none")  # whatever the platform says


def test_the_cost_of_a_child_is_its_own_time():
    idle, busy = cost(["-c", "import time; time.sleep(0.5)"]), cost(["-c", BUSY])
    assert 0.5 <= idle.wall < 5
    assert idle.cpu < 0.4
    assert 0.5 <= busy.cpu < 1.5


def test_a_child_that_fails_says_why():
    with pytest.raises(RunFailed, match=r"exit code 1: no such thing"):
        cost(["-c", "raise SystemExit('no such thing')"])


def test_a_child_takes_the_variables_and_the_beginning_that_it_is_given(tmp_path):
    mark = tmp_path / "mark"
    cost(["-c", f"import os; open({str(mark)!r}, 'w').write(os.environ['HERE'] + os.getcwd())"],
         environment={"HERE": "yes "}, begin=partial(os.chdir, tmp_path))  # fmt: skip
    assert mark.read_text() == f"yes {tmp_path}"


def test_a_run_is_timed_by_its_own_records(cache_dir, tmp_path):
    found = trained("smoke/text_cbr_generated.yaml", tmp_path / "run", "run.episodes=2", cache=cache_dir)
    timing = json.loads((tmp_path / "run" / "timing.json").read_text())
    assert found["seconds"] == timing["seconds"] > 0
    assert found["steps_per_second"] * found["seconds"] == pytest.approx(found["env_steps"])


def test_a_recipe_that_is_not_shipped_is_named():
    with pytest.raises(RunFailed, match=r"nowhere\.yaml is not here"):
        recipe_file("nowhere.yaml")


def test_measures_are_chosen_by_pattern():
    assert list(chosen([])) == list(MEASURES)
    assert list(chosen(["st*", "cores"])) == ["start", "cores", "step"]
    with pytest.raises(CbrError, match=r"no measure fits 'speed'[\s\S]*retrieval"):
        chosen(["start", "speed"])


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_there_and_its_recipes_are(name):
    module, _, function = MEASURES[name].where.partition(":")
    assert callable(getattr(__import__(module, fromlist=[function]), function))


def test_codes_as_bits_differ_in_twice_as_many_places():
    """What faiss is asked about is the same question."""
    codes = retrieval.random_codes(20)
    bits = retrieval.one_bit_each(codes)
    for row in range(20):
        places = int((codes[0] != codes[row]).sum())
        assert sum((int(a) ^ int(b)).bit_count() for a, b in zip(bits[0], bits[row], strict=True)) == 2 * places


def test_queries_have_up_to_eleven_other_places():
    codes = retrieval.random_codes(500)
    for row, query in enumerate(retrieval.near(codes)):
        assert int((codes != query).sum(dim=1).min()) == row % 12


def test_finding_a_case_among_a_hundred_thousand_is_faster_than_comparing_all(tmp_path):
    """The real measure, of two sizes."""
    figures = list(retrieval.retrieval(Setting(tmp_path, quick=True)))
    compared = {each.what: each.ratio for each in figures if each.against == "all compared"}
    assert compared["best case above tau, 100,000 cases"] < 0.7
    assert figures[-1].against == "10,000 cases"
    assert figures[-1].ratio < 3


def test_the_median_of_some_calls(monkeypatch):
    clock = iter([0.0, 1.0, 1.0, 9.0, 9.0, 11.0])
    monkeypatch.setattr("cbr_bench.figures.perf_counter", lambda: next(clock))
    asked = []
    assert median_ms(asked.append, range(3)) == 2000
    assert asked == [0, 1, 2]


def test_the_command_prints_figures_and_what_it_left_out(here, monkeypatch):
    monkeypatch.setenv("CBR_GAMES", "/nowhere")
    done = here("bench", "--only", "step", "--only", "view", "--json")
    assert done.returncode == 1  # something is missing
    told = json.loads(done.stdout)
    assert {each["measure"] for each in told["figures"]} == {"step"}
    assert all(each["ratio"] == pytest.approx(each["value"] / each["other"]) for each in told["figures"])
    assert told["failed"] == {"view": "/nowhere/jericho is not here"}
    assert told["machine"]["cores"] == os.cpu_count()


def test_without_the_games_folder_what_needs_none_is_measured_all_the_same(here, monkeypatch):
    monkeypatch.delenv("CBR_GAMES", raising=False)
    done = here("bench", "--only", "step", "--only", "view", "--json")
    told = json.loads(done.stdout)
    assert {each["measure"] for each in told["figures"]} == {"step"}
    assert told["failed"] == {"view": "set CBR_GAMES to the folder with the published games"}


def test_the_command_lists_measures_and_refuses_others(here):
    listed = here("bench", "--list").stdout
    assert all(f"| {name} " in listed for name in MEASURES)
    refused = here("bench", "--only", "everything")
    assert refused.returncode != 0
    assert "no measure fits 'everything'" in refused.stderr


def test_a_measure_that_fails_is_told_and_the_others_go_on(here, monkeypatch):
    def fail(setting: Setting):
        raise RunFailed("no disk", hint="buy one")
        yield

    monkeypatch.setattr(children, "fail", fail, raising=False)
    broken = {"broken": measures.Measure("cbr_bench.children:fail", "nothing", 0), "step": MEASURES["step"]}
    monkeypatch.setattr(measures, "MEASURES", broken)
    done = here("bench")
    assert done.returncode == 1
    assert "broken: no disk" in done.stderr
    assert "| a reused step's bookkeeping, 100,000 cases |" in done.stdout
