"""The map of objects: every object in the colour of its place, and what is in the way is a note."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_pages import parsed
from report_runs import played, plugins, recipe_text, results, rows, write_run

from cbr_entity.objects import ObjectMap, object_maps
from cbr_entity.section import map_figure, object_table
from cbr_report.folders import read_folders
from cbr_report.runs import Group, Runs, group
from cbr_report.write import write_report
from cbrcore import CbrError


def test_the_map_shows_every_object_in_the_colour_of_its_place():
    names = ("cup", "mug", "hat", "cap", "sock")
    places = {"cup": {"shelf"}, "mug": {"shelf"}, "hat": {"rack"}, "cap": {"rack"}, "sock": {"drawer"}}
    points = np.array([[0.0, 0], [1, 0], [5, 5], [6, 5], [3, 3]])
    accuracies = {"objects of the OUT games (2)": {"trained": 1.0, "chance": 0.25}}
    each = ObjectMap(
        Group((), "BiKE + CBR", "Easy"), names, points, places, frozenset({"cap", "sock"}), accuracies
    )
    figure = map_figure([each])
    spec = figure.chart.to_dict()
    layer = spec["spec"]["layer"][0]
    scale = layer["encoding"]["color"]["scale"]
    assert scale["domain"] == ["rack", "shelf", "drawer", "another place"]
    assert [each["expr"] for each in scale["range"]] == ["cbr_c0", "cbr_c1", "cbr_c2", "cbr_c3"]
    rows = spec["data"]["values"]
    assert {row["name"]: row["series"] for row in rows} == {
        "cup": "shelf", "mug": "shelf", "hat": "rack", "cap": "rack", "sock": "drawer",
    }  # fmt: skip
    assert layer["encoding"]["shape"]["scale"]["range"] == ["circle", "triangle-up"]
    assert {row["name"] for row in rows if row["kind"] == "OUT games alone"} == {"cap", "sock"}
    table = object_table([each])
    assert table.rows == (("Easy", "BiKE + CBR", "objects of the OUT games (2)", "1.00", "0.25"),)


def test_a_run_whose_checkpoint_is_gone_is_noted(tmp_path):
    text = recipe_text("entity.yaml", "bike_cbr_entity-level=easy-seed=0")
    run = write_run(tmp_path / "run", text, results(0, {"in": played(1, 1), "out": played(1, 1)}))
    written = write_report([run], plugins())
    for what, note in zip(
        ("no map of the objects", "no decisions"), sorted(written.notes, reverse=True), strict=True
    ):
        assert what in note
        assert "no checkpoint" in note


def test_the_objects_of_a_real_run(games_dir, cbr, tmp_path):
    """Trained for a pass; the map and the accuracies come from its checkpoint."""
    out = tmp_path / "run"
    recipe = Path(__file__).parents[2] / "recipes" / "smoke" / "cbr_only_twc.yaml"
    parts = ["context_encoder.use=cbr_entity/entity", "quantizer.use=cbr_continuous/continuous"]
    sets = [*parts, "run.episodes=1", "training.pretrain.episodes=0"]
    done = cbr("run", recipe, *(word for each in sets for word in ("--set", each)), "--out", out)
    assert done.returncode == 0, done.stderr
    done = cbr("report", out, "--no-decisions")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = parsed((out / "report.html").read_text())
    assert "objects_map" in page.ids
    titles, seen, unseen = page.tables["objects"]
    assert titles[3:] == [
        "trained",
        "untrained (fresh weights)",
        "frozen text encoding",
        "chance",
        "best possible",
    ]
    for row in (seen, unseen):
        accuracies = [float(cell) for cell in row[3:]]
        assert all(0 <= accuracy <= 1 for accuracy in accuracies)
        assert max(accuracies) == accuracies[-1] > accuracies[-2]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (CbrError("it lacks a part"), "it lacks a part"),
        (ValueError("odd"), "ValueError: odd"),
        (KeyError(3), "KeyError: 3"),
    ],
)
def test_what_is_in_the_way_of_a_map_is_a_note_about_the_first_run_of_a_group(tmp_path, monkeypatch, error, says):
    def failing(*arguments):
        raise error

    folders = []
    for seed in range(3):
        text = recipe_text("entity.yaml", f"bike_cbr_entity-level=easy-seed={seed}")
        folders.append(write_run(tmp_path / f"run{seed}", text, results(seed, {"in": played(1, 1)})))
    found = Runs(group(read_folders(folders).runs), plugins())
    assert [len(each.runs) for each in found.groups] == [3]
    monkeypatch.setattr("cbr_entity.objects.object_map", failing)
    assert object_maps(found) == []
    assert found.notes == [f"{folders[0]}: no map of the objects: {says}"]


def test_runs_without_such_an_encoder_have_no_map(tmp_path):
    text = recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0")
    run = write_run(tmp_path / "run", text, results(0, {"in": played(1, 1)}), rows(0))
    found = Runs(group(read_folders([run]).runs), plugins())
    assert object_maps(found) == []
    assert found.notes == []
