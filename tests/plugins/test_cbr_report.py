"""From run folders to numbers: which runs are read, which belong together, and what stands beside the paper."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_runs import (
    LEVELS,
    TABLES,
    VARIANTS,
    number_of,
    played,
    plugins,
    recipe_text,
    results,
    rows,
    twc_sweep,
    write_run,
)

from cbr_paper.belong import Paper, read_paper
from cbr_paper.compared import paper_tables
from cbr_paper.paper import load_paper
from cbr_report.comparisons import comparison_tables
from cbr_report.curves import curve_of
from cbr_report.figures import curve_figures, reuse_figure, share_of, styles_of
from cbr_report.folders import read_folders
from cbr_report.measures import main_measure, total_steps
from cbr_report.names import OwnWords, name_runs
from cbr_report.page import best_cells
from cbr_report.protocol import commands, protocol_tables
from cbr_report.results import result_tables
from cbr_report.runs import Group, Runs, group, seedless
from cbr_report.specs import figure_data
from cbr_report.tables import as_csv, as_markdown
from cbr_report.write import write_report
from cbrcore import Section
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.runs.files import seal

PAPER = TABLES / "paper.yaml"
EASY_BIKE = ("twc.yaml", "bike-level=easy-seed=0")


def groups_of(*folders: Path, paper: bool = True) -> tuple[list[Group], Paper]:
    runs = Runs(group(read_folders(folders).runs), plugins())
    numbers = read_paper(PAPER, runs.groups, plugins()) if paper else Paper()
    name_runs(runs, numbers if paper else OwnWords())
    return runs.groups, numbers


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Path:
    return twc_sweep(tmp_path_factory.mktemp("sweep") / "twc")


@pytest.fixture(scope="module")
def swept(sweep) -> tuple[list[Group], Paper]:
    return groups_of(sweep)


@pytest.fixture
def run(tmp_path) -> Path:
    return write_run(
        tmp_path / "run",
        recipe_text(*EASY_BIKE),
        results(0, {"in": played(10.0, 0.9), "out": played(12.0, 0.8)}),
    )


def tables_of(groups: list[Group]):
    """All tables of our own numbers."""
    return [*result_tables(groups), *comparison_tables(groups)]


def table_named(tables, id_):
    (found,) = (table for table in tables if table.id == id_)
    return found


# Reading


def test_runs_of_one_recipe_differ_in_their_seed_alone(swept):
    groups, _ = swept
    assert len(groups) == len(VARIANTS) * len(LEVELS)
    assert all([run.seed for run in each.runs] == [0, 1] for each in groups)
    assert groups[0].numbers("evaluation", "in", "steps", "mean") == [
        number_of(*groups[0].runs[0].path.name.split("-level=")[:1], "easy", seed)[0] for seed in (0, 1)
    ]


def test_a_run_is_counted_once_however_it_is_named(sweep):
    twice = read_folders([sweep, sweep / "bike-level=easy-seed=0", sweep])
    assert len(twice.runs) == len(VARIANTS) * len(LEVELS) * 2


def test_folders_that_hold_nothing_are_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"empty holds no run\n.*cbr report RUN_OR_SWEEP"):
        read_folders([tmp_path / "empty"])
    with pytest.raises(RunFolderError, match="none is no folder"):
        read_folders([tmp_path / "none"])


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("results.json", "{", "results.json: cannot be read"),
        ("results.json", "[]", "results.json: damaged, it holds no object"),
        ("results.json", '{"evaluation": 3}', "results.json: damaged: no evaluation"),
        ("results.json", '{"evaluation": {}, "protocol": 3}', "results.json: damaged: no protocol"),
        ("results.json", '{"evaluation": {}, "protocol": {"games": [1]}}', "results.json: damaged: no protocol"),
        ("recipe.yaml", "a: [", "recipe.yaml: damaged recipe"),
        ("recipe.yaml", "seed: one", "recipe.yaml: damaged: the seed is no number"),
    ],
)
def test_a_damaged_run_is_named_and_left_out(run, tmp_path, file, content, says):
    bad = tmp_path / "bad"
    shutil.copytree(run, bad)
    (bad / file).write_text(content)
    found = read_folders([run, bad])
    assert [each.path for each in found.runs] == [run]
    (note,) = found.notes
    assert says in note
    assert str(bad) in note
    with pytest.raises(RunFolderError, match="nothing to report"):
        read_folders([bad])


def test_missing_parts_of_a_run_are_noted(run):
    (run / "metrics.jsonl").unlink()
    (run / "versions.json").unlink()
    found = read_folders([run])
    assert len(found.runs) == 1
    assert ["versions.json" in note for note in found.notes] == [True, False]
    assert "no learning curve" in found.notes[1]


def test_an_unfinished_run_says_how_to_go_on(run):
    other = run.with_name("other")
    shutil.copytree(run, other)
    (other / "results.json").unlink()
    assert read_folders([run, other]).notes == [
        f"{other}: not finished (no results.json); continue it with: cbr run --resume {other}"
    ]


def test_the_commands_name_plugin_files_and_each_seed_once(run):
    """A run that was started with a loose plugin file, and another one of the same seed."""
    again = run.with_name("again")
    shutil.copytree(run, again)
    for folder in (run, again):
        starts = [{"plugin_files": {"/lab/my part.py": "12"}}]
        (folder / "versions.json").write_text(json.dumps({"starts": starts}))
    groups, _ = groups_of(run, again, paper=False)
    _, again_, *_, page = commands(groups, [], [run], Path("page.html"))
    words = f"cbr run {run}/recipe.yaml --plugin '/lab/my part.py' --seed $seed --out NEW_FOLDER-$seed"
    assert again_ == f"for seed in 0; do {words}; done"
    assert page == f"cbr report {run} --plugin '/lab/my part.py' --out page.html"


def test_what_a_sweep_still_lacks_is_one_note(sweep, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(sweep, copy)
    shutil.rmtree(copy / "bike-level=easy-seed=0")
    (copy / "bike-level=easy-seed=1" / "results.json").unlink()
    (note,) = read_folders([copy]).notes
    assert note.startswith(f"{copy}: 2 of 54 runs are not finished (bike-level=easy-seed=0 ...)")
    assert note.endswith(f"cbr sweep twc.yaml --out {copy}")
    written = json.loads((copy / "sweep.json").read_text()) | {"path": "my recipes/twc.yaml"}
    (copy / "sweep.json").write_text(json.dumps(written))
    (note,) = read_folders([copy]).notes
    assert note.endswith(f"cbr sweep 'my recipes/twc.yaml' --out {copy}")
    written |= {"options": ["--set", "run.episodes=1", "--plugin", "my part.py"]}
    (copy / "sweep.json").write_text(json.dumps(written))
    (note,) = read_folders([copy]).notes
    assert note.endswith(
        f"cbr sweep 'my recipes/twc.yaml' --set run.episodes=1 --plugin 'my part.py' --out {copy}"
    )


def test_a_damaged_sweep_file_costs_its_words_alone(sweep, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(sweep, copy)
    (copy / "sweep.json").write_text('{"runs": [{}]}')
    found = read_folders([copy])
    assert (len(found.runs), len(found.notes)) == (54, 1)
    assert "damaged" in found.notes[0]


def test_a_line_that_was_cut_off_ends_the_curve(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"episode": 21, "env')
    assert len(read_folders([run]).runs[0].metrics) == 20


# Damaged and partial runs

LINES = {
    "torn": (lambda text: text[:-30], "metrics.jsonl: 1 line damaged, the first one is line 20"),
    "a hole of NUL": (
        lambda text: b"\0" * 200 + text[200:],
        "metrics.jsonl: 1 line damaged, the first one is line 1",
    ),
    "halved": (lambda text: b"".join(text.splitlines(keepends=True)[:10]), "lacks 10 episodes of 20, from 11 on"),
    "a line gone": (
        lambda text: text.replace(text.splitlines(keepends=True)[4], b""),
        "lacks 1 episode of 20, from 5 on",
    ),
    "no objects": (lambda text: b"[1]\n" + text + b"5\nnull\n", "3 lines damaged, the first one is line 1"),
    "deep": (lambda text: text + b"[" * 100_000, "1 line damaged, the first one is line 21"),
    "no UTF-8": (lambda text: b'{"a": "\xff"}\n' + text, "1 line damaged, the first one is line 1"),
    "nothing": (lambda text: b"", "metrics.jsonl is missing or damaged; it has no learning curve"),
    "NUL alone": (lambda text: b"\0" * len(text), "metrics.jsonl is missing or damaged; it has no learning curve"),
}


@pytest.mark.parametrize(("damage", "says"), LINES.values(), ids=LINES)
def test_what_the_metrics_lack_is_said_and_the_rest_is_drawn(run, damage, says):
    change(run, lambda data: data["training"].update(episodes=20))
    path = run / "metrics.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    found = read_folders([run])
    assert any(says in note and str(run) in note for note in found.notes), found.notes
    assert all({"episode", "env_steps"} <= row.keys() for row in found.runs[0].metrics)


def change(run: Path, how) -> None:
    data = json.loads((run / "results.json").read_text())
    how(data)
    (run / "results.json").write_text(json.dumps(data))


def test_whole_metrics_are_not_noted(run):
    change(run, lambda data: data["training"].update(episodes=20))
    assert read_folders([run]).notes == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"evaluation": {}, "ood_gap": NaN}', "results.json: cannot be read: NaN is no number"),
        ("[" * 100_000, "results.json: cannot be read: "),
        ('{"evaluation": {"in": {"steps": {"mean": 1e999}}}}', "results.json: cannot be read: 1e999 is no number"),
        ('{"evaluation": {"in": {"steps": {"mean": "9"}}}}', "damaged: evaluation.in.steps.mean: "),
        ('{"evaluation": {"in": {"steps": 9}}}', "damaged: evaluation.in.steps: "),
        ('{"evaluation": {}, "schema": 2}', "damaged: schema: "),
        ('{"evaluation": {}, "training": [1]}', "damaged: training: "),
        (
            '{"evaluation": {}, "protocol": {"games": {"out": {"a": {"max_score": "x"}}}}}',
            "games.out.a.max_score: ",
        ),
    ],
)
def test_wrong_results_are_named_with_their_place(run, text, says):
    shutil.copytree(run, run.with_name("bad"))
    (run.with_name("bad") / "results.json").write_text(text)
    found = read_folders([run, run.with_name("bad")])
    assert [each.path for each in found.runs] == [run]
    (note,) = found.notes
    assert says in note
    assert f"the run {run.with_name('bad')} is left out" in note


@pytest.mark.parametrize(
    "path",
    ["training", "protocol.games", "protocol.evaluation_passes", "evaluation.in.steps", "evaluation.out.random"],
)
def test_missing_keys_are_noted_and_a_dash_stands_for_them(run, path):
    def drop(data) -> None:
        *way, last = path.split(".")
        for key in way:
            data = data[key]
        del data[last]

    change(run, drop)
    written = write_report([run], plugins(), out=run.with_name("page.html"), decisions=False)
    assert f"{run}: results.json tells nothing of {path}; a dash stands for it" in written.notes


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (None, "memory/ is missing; the run had 3 cases"),
        (0, "holds 0 of 3 cases"),
        (2, "holds 2 of 3 cases"),
        (3, ""),
    ],
)
def test_cases_that_are_gone_are_noted(run, lines, says):
    change(run, lambda data: data["training"].update(memory_size=3))
    if lines is not None:
        (run / "memory").mkdir()
        (run / "memory" / "cases.jsonl").write_text("{}\n" * lines)
    assert [note.partition(": ")[2].removeprefix("memory/cases.jsonl ") for note in read_folders([run]).notes] == (
        [says] if says else []
    )


def test_what_is_not_as_it_was_written_is_noted(run):
    """A number that was changed is one no more that a JSON reader could doubt."""
    seal(run, "results.json", "metrics.jsonl", "recipe.yaml")
    assert read_folders([run]).notes == []
    for name, before, after in (("results.json", "0.9", "0.8"), ("metrics.jsonl", "48", "47")):
        text = (run / name).read_text()
        (run / name).write_text(text.replace(before, after, 1))
        assert f"{run}: {name} is not what was written (its checksum is another)" in read_folders([run]).notes
        (run / name).write_text(text)


def places_in(data, way=()):
    """The way to every value."""
    yield way
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places_in(value, (*way, key))


SOUND = results(0, {"in": played(10.0, 0.9), "out": played(12.0, 0.8)})
SOUND["training"] |= {"episodes": 20, "env_steps": 200, "memory_size": 0, "endings": {"won": 3}, "pretraining": {}}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def with_a_value(folder: Path, way, value) -> tuple[Path, Path]:
    """(a sound run, the same of another agent with `value` in one place of its results)"""
    good = write_run(folder / "good", recipe_text(*EASY_BIKE), SOUND)
    bad = write_run(folder / "bad", recipe_text("twc.yaml", "text-level=easy-seed=0"), SOUND)
    data = at = json.loads(json.dumps(SOUND))
    for key in way[:-1]:
        at = at[key]
    if way:
        at[way[-1]] = value
    (bad / "results.json").write_text(json.dumps(data if way else value))
    return good, bad


@given(st.sampled_from(list(places_in(SOUND))), ANY)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_stands_in_the_results_there_are_tables_or_a_message(way, value):
    """Any JSON value in place of any value: never a traceback."""
    with tempfile.TemporaryDirectory() as folder:
        good, bad = with_a_value(Path(folder), way, value)
        found = read_folders([good, bad])
        runs = Runs(group(found.runs), plugins())
        name_runs(runs, OwnWords())
        tables = [*tables_of(runs.groups), *protocol_tables(runs.groups)]
    assert len(found.runs) == 2 or any(str(bad) in note for note in found.notes)
    assert {"results", "intervals", "handicaps", "protocol", "versions"} <= {table.id for table in tables}
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert as_csv(table)
        assert as_markdown(table)


@given(st.sampled_from(list(places_in(SOUND))), ANY)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_stands_in_the_results_there_is_a_page(way, value):
    """No section is lost to the other runs."""
    with tempfile.TemporaryDirectory() as folder:
        runs = with_a_value(Path(folder), way, value)
        written = write_report(runs, plugins(), out=Path(folder) / "page.html", decisions=False)
        text = written.page.read_text()
    assert not any("section" in note for note in written.notes), written.notes
    assert 'id="results"' in text
    assert 'id="protocol"' in text


# Names


def test_agents_and_places_are_called_as_in_the_paper(swept):
    groups, _ = swept
    assert {each.place for each in groups} == {"Easy", "Medium", "Hard"}
    assert {"BiKE + CBR", "CBR-only", "KG-A2C"} <= {each.agent for each in groups}
    styles = styles_of(groups)
    assert styles["BiKE"].colour == styles["BiKE + CBR"].colour
    assert (styles["BiKE"].dashed, styles["BiKE + CBR"].dashed) == (True, False)
    assert len({(style.colour, style.dashed) for style in styles.values()}) == 9


def test_without_the_papers_words_the_sweeps_own_are_used(sweep):
    groups, _ = groups_of(sweep, paper=False)
    assert {each.agent for each in groups} == set(VARIANTS)
    assert {each.place for each in groups} == set(LEVELS)


def test_agents_of_one_name_are_told_apart_by_what_differs(run):
    text = recipe_text(*EASY_BIKE, "training.gamma=0.5")
    other = write_run(run.with_name("other"), text, results(0, {"in": played(1, 1), "out": played(1, 1)}))
    groups, _ = groups_of(run, other)
    assert [(each.settings["training.gamma"], each.agent) for each in groups] == [
        (0.5, "BiKE (gamma 0.5)"),
        (0.9, "BiKE (gamma 0.9)"),
    ]


def test_agents_of_other_parts_are_told_apart_by_the_parts(tmp_path):
    """FSQ has other settings than VQ, and is in no table of the paper for TWC."""
    for part in ("cbr_fsq/fsq", "cbr_projection/srp"):
        text = recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0", f"quantizer={{use: {part}}}", "name=mine")
        write_run(tmp_path / part, text, results(0, {"in": played(1, 1), "out": played(1, 1)}))
    groups, _ = groups_of(tmp_path / "cbr_fsq", tmp_path / "cbr_projection")
    assert [each.agent for each in groups] == ["mine (quantizer fsq)", "mine (quantizer srp)"]


@pytest.mark.parametrize(
    ("name", "rest"), [("bike_cbr-level=easy-seed=3", "bike_cbr-level=easy"), ("a-3", "a"), ("3", "3"), ("a", "a")]
)
def test_a_folder_without_its_seed(name, rest):
    assert seedless(name) == rest


# Beside the paper


def test_every_cell_of_the_twc_tables_has_the_papers_number_and_ours(swept):
    """Mean and deviation over the two seeds, computed anew here."""
    _, numbers = swept
    printed = {table.id: table for table in load_paper(PAPER)}
    for split, shift in (("in", (0.0, 0.0)), ("out", (3.0, -0.1))):
        table = table_named(paper_tables(numbers), f"paper_twc_{split}")
        assert len(table.rows) == 9 + 2
        for row, cells in zip(table.rows, printed[f"twc_{split}"].cells, strict=False):
            for position, cell in enumerate(cells):
                variant, level = cell.choices["variants"], cell.choices["environment.level"]
                which = int("norm" in cell.metric.reads)
                ours = [number_of(variant, level, seed)[which] + shift[which] for seed in (0, 1)]
                theirs, our = row[1 + 2 * position : 3 + 2 * position]
                assert theirs == cell.value.text
                assert our == f"{statistics.mean(ours):.2f} ± {statistics.stdev(ours):.2f} (2)"
        assert [row[0] for row in table.rows[-2:]] == ["uniform random", "optimal"]
        assert table.rows[-2][1:5] == ("–", "40.00 ± 0.00", "–", "0.50 ± 0.00")
        assert table.rows[-1][1:5] == ("–", "2.40", "–", "1.00")
        assert all("not as in the paper: " in remark for remark in table.remarks)


def test_the_gap_is_a_difference_of_means(swept):
    _, numbers = swept
    table = table_named(paper_tables(numbers), "paper_ood_gap")
    assert table.rows[0][:5] == ("Text", "6.07", "3.00 (2)", "0.10", "0.10 (2)")


def test_runs_without_a_sweep_are_found_by_their_parts(tmp_path):
    """The same cells, the same numbers: only sweep.json is missing."""
    alone = twc_sweep(tmp_path / "alone", sweep_file=False, seeds=1)
    groups, numbers = groups_of(alone)
    table = table_named(paper_tables(numbers), "paper_twc_in")
    assert all("(1)" in cell for row in table.rows[:9] for cell in row[2::2])
    assert {each.agent for each in groups} >= {"BiKE + CBR", "Text"}


def test_a_run_with_other_settings_is_shown_with_what_differs(run):
    shutil.rmtree(run)
    text = recipe_text(*EASY_BIKE, "training.gamma=0.5", "training.pretrain.episodes=3")
    write_run(run, text, results(0, {"in": played(10, 0.9), "out": played(12, 0.8)}))
    _, numbers = groups_of(run)
    table = table_named(paper_tables(numbers), "paper_twc_in")
    assert table.remarks[0] == "BiKE (Easy): not exactly the run of twc.yaml: training.gamma: 0.5, there 0.9"
    assert all("not as in the paper: " in remark for remark in table.remarks[1:])
    assert [column.title for column in table.columns] == [
        "Agent", "Easy #Steps, paper", "Easy #Steps, ours", "Easy Norm. Score, paper", "Easy Norm. Score, ours",
    ]  # fmt: skip


def test_what_differs_in_several_runs_is_said_once(tmp_path):
    changed = {"bike": ("easy", "hard"), "text": ("easy", "hard"), "tpc": ("easy",)}
    folders = [
        write_run(
            tmp_path / f"{variant}-{level}",
            recipe_text("twc.yaml", f"{variant}-level={level}-seed=0", "training.gamma=0.5"),
            results(0, {"in": played(10, 0.9), "out": played(12, 0.8)}),
        )
        for variant, levels in changed.items()
        for level in levels
    ]
    _, numbers = groups_of(*folders)
    (remark,) = [
        remark
        for remark in table_named(paper_tables(numbers), "paper_twc_in").remarks
        if "not as in the paper" not in remark
    ]
    assert remark == (
        "Text, BiKE (Easy, Hard); TPC (Easy): not exactly the run of twc.yaml: training.gamma: 0.5, there 0.9"
    )


def test_what_pretraining_reached_is_told_before_and_after(run, tmp_path):
    folders = [run]  # an agent without a retriever
    for seed, same in enumerate((0.9, 1.0)):
        found = results(seed, {"in": played(10, 0.9), "out": played(12, 0.8)})
        found["training"]["pretraining"] = {
            "before": {"same": 0.2, "different": 0.1, "failed": 0.1},
            "after": {"same": same, "different": 0.3, "failed": None},
        }
        text = recipe_text("twc.yaml", f"bike_cbr-level=easy-seed={seed}")
        folders.append(write_run(tmp_path / f"cbr-{seed}", text, found))
    groups, _ = groups_of(*folders)
    table = table_named(tables_of(groups), "pretraining")
    assert table.rows == (
        (
            "Easy",
            "BiKE + CBR",
            "2",
            "0.20 ± 0.00",
            "0.95 ± 0.07",
            "0.10 ± 0.00",
            "0.30 ± 0.00",
            "0.10 ± 0.00",
            "–",
        ),
    )
    assert [column.title for column in table.columns][3:5] == ["Same template, before", "Same template, after"]
    assert "pretraining" not in [each.id for each in tables_of(groups_of(run)[0])]


def test_a_game_of_another_kind_is_not_the_papers(run):
    shutil.rmtree(run)
    text = recipe_text(*EASY_BIKE, "environment.source=generate")
    write_run(run, text, results(0, {"in": played(10, 0.9), "out": played(12, 0.8)}))
    groups, numbers = groups_of(run)
    assert paper_tables(numbers) == []
    assert groups[0].place == "Easy (generated)"


def test_scores_of_jericho_stand_beside_the_cited_ones(tmp_path):
    evaluation = {"train": played(100, 0.1)}
    for seed in (0, 1):
        text = recipe_text("jericho_33.yaml", "bike_cbr-game=zork1-seed=0", f"seed={seed}")
        found = results(seed, evaluation, game={"initial_score": 0, "max_score": 350})
        write_run(tmp_path / "runs" / f"zork-{seed}", text, found)
    groups, numbers = groups_of(tmp_path / "runs")
    table = table_named(paper_tables(numbers), "paper_jericho_33")
    assert table.rows == (("zork1", "350", "102", "9.9", "32.6", "34", "38.3", "38.8", "44.3", "10.5 ± 0.7 (2)"),)
    points = table_named(result_tables(groups), "points")
    assert not any("training episodes" in remark for remark in points.remarks)
    assert points.rows == (
        ("zork1", "BiKE + CBR", "2", "10.50 ± 0.71", "20.50 ± 0.71", "0", "0.50 ± 0.00", "350"),
    )


def zork_runs(
    folder: Path, scores: dict[str, tuple[float, float]], *, protocol: str, **training: float
) -> list[Path]:
    """Of each agent a run with this score while training and this one in the evaluation."""
    change = ["environment.seed=episode"] if protocol == "P2" else []
    folders = []
    for variant, (trained, evaluated) in scores.items():
        found = results(0, {"train": played(100, evaluated)}, game={"initial_score": 0, "max_score": 350})
        found["training"] |= {"avg_score_last_100": trained, **training}
        found["protocol"]["handicaps"]["protocol"] = f"{protocol}: as it is"
        text = recipe_text("jericho_33.yaml", f"{variant}-game=zork1-seed=0", *change)
        folders.append(write_run(folder / f"{variant}-{protocol}", text, found))
    return folders


SCORES = {"bike": (300.0, 10.0), "bike_cbr": (100.0, 200.0)}


@pytest.mark.parametrize(
    ("protocol", "ahead", "table"),
    [("P1", "BiKE", "points"), ("P2", "BiKE + CBR", "points_p2"), ("mine", "BiKE", "points")],
)
def test_agents_are_ranked_by_the_score_of_their_protocol(tmp_path, protocol, ahead, table):
    """While training BiKE has more, in the evaluation BiKE + CBR."""
    groups, numbers = groups_of(*zork_runs(tmp_path, SCORES, protocol=protocol))
    tables = tables_of(groups)
    scores = table_named(tables, table)
    marked = {
        scores.rows[row][1] for row, column in best_cells(scores) if "Best" not in scores.columns[column].title
    }
    assert marked == {ahead}
    assert [each.id for each in tables if each.id.startswith("points")] == [table]
    first = main_measure(groups[0])
    best = max(groups, key=lambda group: first.of(group))
    assert best.agent == ahead
    (row,) = table_named(paper_tables(numbers), "paper_jericho_33").rows
    assert {"points": "100.0 (1)", "points_p2": "200.0 (1)"}[table] in row  # BiKE alone is not in that table


def test_a_mean_over_fewer_than_100_episodes_says_so(tmp_path):
    few = zork_runs(tmp_path / "few", {"bike": (3.0, 3.0)}, protocol="P1", episodes=16)
    many = zork_runs(tmp_path / "many", {"bike_cbr": (3.0, 3.0)}, protocol="P1", episodes=100)
    groups, _ = groups_of(*few, *many)
    said = [each for each in table_named(result_tables(groups), "points").remarks if "training episodes" in each]
    assert said == ["zork1: BiKE has 16 training episodes: its mean is over all of them"]


# Our own numbers


def test_results_with_the_random_and_the_optimal_row(run):
    groups, _ = groups_of(run, paper=False)
    table = table_named(result_tables(groups), "results")
    assert [row[1:] for row in table.rows] == [
        ("twc", "1", "10.00", "0.90", "12.00", "0.80"),
        ("uniform random", "–", "40.00", "0.50", "40.00", "0.50"),
        ("optimal", "–", "2.40", "1.00", "2.40", "1.00"),
    ]
    greedy = table_named(result_tables(groups), "results_greedy")
    assert greedy.rows == (("easy", "twc", "1", "20.00", "0.45", "22.00", "0.40"),)


@pytest.mark.parametrize(
    ("intervals", "shown"),
    [
        ([[38.0, 42.0], [38.0, 42.0]], "[38.59, 41.41]"),  # half a width of sqrt(2^2 + 2^2) / 2
        ([[39.0, 41.0]], "[39.00, 41.00]"),
        ([[39.0, 41.0], None], None),
        ([None], None),
    ],
)
def test_the_random_agent_has_an_interval_of_its_plays(tmp_path, intervals, shown):
    """As many plays as a run says, whatever the agent's own are; several runs make it narrower."""
    folders = []
    for seed, pair in enumerate(intervals):
        found = results(seed, {"in": played(10, 0.9), "out": played(12, 0.8)})
        found["evaluation"]["in"]["random"]["steps"]["interval"] = pair
        found["evaluation"]["in"]["random"]["passes"] = 100
        text = recipe_text("twc.yaml", f"bike-level=easy-seed={seed}")
        folders.append(write_run(tmp_path / f"r-{seed}", text, found))
    groups, _ = groups_of(*folders, paper=False)
    rows = [row for row in table_named(tables_of(groups), "intervals").rows if row[1] == "uniform random"]
    assert [(row[2], row[3], row[-1]) for row in rows] == (
        [("IN #Steps", str(len(intervals)), shown)] if shown else []
    )


@pytest.mark.parametrize(("first", "second", "count"), [(100, 100, 1), (100, 5, 2), (None, None, 2)])
def test_the_random_agent_is_one_if_it_played_as_often(tmp_path, first, second, count):
    """Its own passes tell, the agent's only where a run does not say (older versions)."""
    folders = []
    for variant, passes, own in (("bike", first, 3), ("text", second, 5)):
        found = results(0, {"in": played(10, 0.9), "out": played(12, 0.8)})
        found["protocol"]["evaluation_passes"] = own
        for evaluation in found["evaluation"].values():
            evaluation["random"] |= {} if passes is None else {"passes": passes}
        text = recipe_text("twc.yaml", f"{variant}-level=easy-seed=0")
        folders.append(write_run(tmp_path / variant, text, found))
    groups, _ = groups_of(*folders)
    table = table_named(tables_of(groups), "results")
    assert sum(row[1].startswith("uniform random") for row in table.rows) == count


def test_steps_of_single_games_stand_beside_the_mean(tmp_path):
    """Over the runs of an agent; too many are not listed one by one."""
    folders = []
    for seed in (0, 1):
        found = results(seed, {"in": played(10, 0.9), "out": played(12, 0.8)})
        few = {"a": {"steps": 30.0 + seed}, "b": {"steps": 2.0}, "c": {"steps": None}}
        found["evaluation"]["in"]["games"] = few
        found["evaluation"]["out"]["games"] = {f"g{at}": {"steps": float(at)} for at in range(13)}
        text = recipe_text("twc.yaml", f"bike-level=easy-seed={seed}")
        folders.append(write_run(tmp_path / f"r-{seed}", text, found))
    groups, _ = groups_of(*folders)
    assert table_named(tables_of(groups), "by_game").rows == (
        ("Easy", "BiKE", "IN", "2", "2", "2.0", "30.5", "2.0, 30.5"),
        ("Easy", "BiKE", "OUT", "2", "13", "0.0", "12.0", "–"),
    )


@pytest.mark.parametrize(
    ("facts", "perplexity", "row"),
    [
        ({"prototypes": 5}, 7.25, ("7.0", "5.0", "7.2", "–")),
        ({"prototypes": 5, "wrong_tries": 0.3}, None, ("7.0", "5.0", "–", "0.30")),
        (None, None, ("7.0", "–", "–", "–")),  # of an older version
    ],
)
def test_beside_cases_stand_prototypes_code_perplexity_and_wrong_tries(tmp_path, facts, perplexity, row):
    found = results(0, {"in": played(10, 0.9), "out": played(12, 0.8)})
    found["training"] |= {"memory_size": 7} | ({"facts": {"memory": facts}} if facts else {})
    lines = [each | {"code_perplexity": perplexity} for each in rows(0)]
    text = recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0")
    groups, _ = groups_of(write_run(tmp_path / "run", text, found, lines))
    table = table_named(tables_of(groups), "cases")
    assert table.rows == (("Easy", "BiKE + CBR", "1", *row),)
    titles = [column.title for column in table.columns]
    assert titles[3:] == ["Cases", "Prototypes", "Code perplexity", "Wrong tries"]


def test_what_is_counted_below_figure_4_is_said(tmp_path):
    found = results(0, {"in": played(10, 0.9), "out": played(12, 0.8)})
    text = recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0")
    groups, _ = groups_of(write_run(tmp_path / "run", text, found))
    figure = reuse_figure(groups)
    assert "drew the same action" in figure.title
    assert "rewarded action, this one or another" in figure.caption


def test_who_is_ahead_of_whom(swept):
    groups, _ = swept
    easy = [each for each in groups if each.place == "Easy"]
    square = {row[0]: dict(zip([each.agent for each in easy], row[1:], strict=True)) for row in
              table_named(tables_of(easy), "improvement_0").rows}  # fmt: skip
    assert square["BiKE"]["BiKE"] == "–"
    assert square["BiKE"]["Text"] == "0.88"  # steps 13, 14 against 14, 15: ahead, ahead, a tie, ahead
    assert square["Text"]["BiKE"] == "0.12"


def test_runs_of_older_versions_tell_less(run):
    data = json.loads((run / "results.json").read_text())
    for found in data["evaluation"].values():
        del found["total_steps"], found["reuse_agent_same"], found["greedy"]
        found["endings"] = {"won": 4, "truncated": 6}
    (run / "results.json").write_text(json.dumps(data))
    groups, _ = groups_of(run, paper=False)
    assert total_steps(groups[0].runs[0].results["evaluation"]["in"]) == 100.0  # 10 plays of 10 steps
    assert share_of(groups[0], "in", "reused", "total_steps").mean == 0.3
    assert share_of(groups[0], "in", "reuse_agent_same", "reuse_rewarded") is None
    assert [table.id for table in tables_of(groups)] == ["results", "intervals"]


def test_games_that_end_at_one_step_are_one_point_of_a_curve(tmp_path):
    """Two games at the same time, one scores nothing and one everything: 0.5 all along, not up and down."""
    lines = [
        {"episode": number, "env_steps": 10 * ((number + 1) // 2), "norm_score": float(number % 2)}
        for number in range(1, 9)
    ]
    found = results(0, {"in": played(1, 1), "out": played(1, 1)})
    text = recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0")
    (only,), _ = groups_of(write_run(tmp_path / "run", text, found, lines), paper=False)
    curve = curve_of(only, "norm_score", smooth=False)
    assert (curve.x[0], curve.x[-1]) == (10, 40)
    assert curve.mean.tolist() == [0.5] * len(curve.mean)


def rows_in(data: Any) -> list[dict[str, Any]]:
    """All mappings with a "value" that are anywhere in what is drawn."""
    if isinstance(data, dict):
        inner = [row for each in data.values() for row in rows_in(each)]
        return [data, *inner] if isinstance(data.get("value"), float) else inner
    return [row for each in data for row in rows_in(each)] if isinstance(data, list) else []


def test_a_share_is_drawn_within_its_axis(tmp_path):
    """Reused in 100, 60 and 100 of 100 steps: 0.87 ± 0.23."""
    for seed, reused in enumerate((100, 60, 100)):
        found = results(seed, {"in": played(10, 0.9, reused=reused), "out": played(12, 0.8, reused=reused)})
        write_run(
            tmp_path / "runs" / str(seed), recipe_text("twc.yaml", f"bike_cbr-level=easy-seed={seed}"), found
        )
    groups, _ = groups_of(tmp_path / "runs")
    data, _ = figure_data([Section("s", "s", [reuse_figure(groups)])])
    shares = [row for row in rows_in(data) if row.get("value") == pytest.approx(260 / 300)]
    assert shares
    assert all(row["high"] == 1.0 for row in shares)


def test_curves_are_means_where_all_runs_are(tmp_path):
    """Two runs whose memory grows alike, one of them with one case more: mean + 1/2, deviation sqrt(1/2)."""
    for seed in (0, 1):
        text = recipe_text("twc.yaml", f"bike_cbr-level=easy-seed={seed}")
        write_run(tmp_path / "runs" / f"r-{seed}", text, results(seed, {"in": played(1, 1), "out": played(1, 1)}))
    (only,), _ = groups_of(tmp_path / "runs", paper=False)
    curve = curve_of(only, "memory_size", smooth=False)
    assert (curve.x[0], curve.x[-1], curve.mean[-1]) == (10, 200, 10.5)
    assert curve.high[-1] == 11  # 10.5 + 0.71, cut at the largest number that was
    assert curve.low[-1] == pytest.approx(10.5 - 0.5**0.5)
    assert curve_of(only, "missing", smooth=True) is None


def pretrained(tmp_path: Path, variant: str, before: dict | None, *seeds: int) -> list[Path]:
    """Runs of an agent, with what results.json says of their pretraining; 200 steps of training each."""
    folders = []
    for seed in seeds or (0,):
        found = results(seed, {"in": played(10, 0.9), "out": played(12, 0.8)})
        found["training"] |= {"env_steps": 200, "pretraining": before}
        text = recipe_text("twc.yaml", f"{variant}-level=easy-seed={seed}")
        folders.append(write_run(tmp_path / f"{variant}-{seed}", text, found))
    return folders


@pytest.mark.parametrize(
    ("before", "start"),
    [({"steps": 30, "plays": 4}, 30), ({"steps": 0, "plays": 0}, 0), ({"steps": None}, 0), ({}, 0), (None, 0)],
)
@pytest.mark.parametrize("key", ["norm_score", "memory_size"])
def test_a_curve_begins_after_the_steps_of_the_pretraining(tmp_path, before, start, key):
    (only,), _ = groups_of(*pretrained(tmp_path, "bike_cbr", before, 0, 1), paper=False)
    curve = curve_of(only, key, smooth=False)
    assert (curve.x[0], curve.x[-1]) == (start + 10, start + 200)
    captions = {figure.caption for figure in curve_figures([only])}
    assert all(("after the steps of its pretraining" in caption) == (start > 0) for caption in captions)


@pytest.mark.parametrize(
    ("before", "told", "steps"),
    [
        ({"steps": 1200, "plays": 50}, "100 passes + 50 plays of pretraining", "200 + 1,200 of pretraining"),
        ({"retriever": "ab", "steps": None, "plays": None}, "100 passes + pretraining, not counted", "200"),
        ({"items": 3, "rewarded": 1}, "100 passes + pretraining, not counted", "200"),
    ],
)
def test_agents_of_which_one_is_pretrained_were_not_trained_alike(tmp_path, before, told, steps):
    runs = [*pretrained(tmp_path, "bike_cbr", before), *pretrained(tmp_path, "bike", {})]
    groups, _ = groups_of(*runs)
    table = table_named(tables_of(groups), "results")
    column = [each.title for each in table.columns].index("Training")
    assert {row[1]: row[column] for row in table.rows[:2]} == {"BiKE": "100 passes", "BiKE + CBR": told}
    says = f"not trained alike (100 passes: BiKE; {told}: BiKE + CBR)"
    assert any(says in remark for remark in table.remarks)
    protocol = table_named(protocol_tables(groups), "protocol")
    assert {row[1]: row[-2:] for row in protocol.rows} == {
        "BiKE": ("100 passes", "200"), "BiKE + CBR": (told, steps),
    }  # fmt: skip


@pytest.mark.parametrize("before", [{"steps": 1200, "plays": 50}, {}, None])
def test_agents_with_one_pretraining_have_one_budget(tmp_path, before):
    """Its steps differ from seed to seed; the plays are what was asked for."""
    runs = [*pretrained(tmp_path, "bike_cbr", before, 0, 1), *pretrained(tmp_path, "text_cbr", before)]
    data = json.loads((runs[0] / "results.json").read_text())
    if before:
        data["training"]["pretraining"]["steps"] += 7
        (runs[0] / "results.json").write_text(json.dumps(data))
    groups, _ = groups_of(*runs)
    assert [len(each.runs) for each in groups] == [1, 2]
    assert "Training" not in [each.title for each in table_named(tables_of(groups), "results").columns]


def test_equal_seeds_are_noted(run):
    shutil.copytree(run, run.with_name("again"))
    written = write_report([run, run.with_name("again")], plugins(), out=run.with_name("page.html"))
    assert written.notes == ["BiKE, Easy: 2 runs have seed 0; equal runs are no further evidence"]


def test_a_wrong_paper_file_is_an_error_if_it_was_named(run, tmp_path):
    (tmp_path / "wrong.yaml").write_text("schema: 2")
    with pytest.raises(CbrError, match=r"wrong\.yaml"):
        write_report([run], plugins(), out=tmp_path / "page.html", paper=tmp_path / "wrong.yaml")


# The command


def test_the_command_writes_the_page_and_says_where(run, cbr):
    done = cbr("report", run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"1 runs: {run / 'report.html'}"
    assert {path.name for path in run.glob("report*")} == {"report.html", "report.md", "report_tables"}


def test_a_file_of_somebodys_own_is_not_replaced(run, cbr, tmp_path):
    notes = tmp_path / "README.md"
    notes.write_text("my own notes")
    refused = cbr("report", run, "--no-decisions", "--out", tmp_path / "README.html")
    assert (refused.returncode, notes.read_text()) == (2, "my own notes")
    assert f"{notes} is there and no report's" in refused.stderr
    refused = cbr("report", run, "--no-decisions", "--out", tmp_path / "page.md")
    assert (refused.returncode, (tmp_path / "page.md").exists()) == (2, False)
    assert f"--out {tmp_path / 'page.html'}" in refused.stderr
    for _ in range(2):
        assert cbr("report", run, "--no-decisions", "--out", tmp_path / "page.html").returncode == 0
    (tmp_path / "page.html").unlink()
    assert cbr("report", run, "--no-decisions", "--out", tmp_path / "page.html").returncode == 0


def test_the_command_refuses_what_holds_nothing(tmp_path, cbr):
    done = cbr("report", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no run" in done.stderr
    assert "Traceback" not in done.stderr


def test_metrics_by_hand_are_like_real_ones():
    assert rows(0)[0].keys() >= {"episode", "env_steps", "score", "norm_score", "steps", "memory_size"}
