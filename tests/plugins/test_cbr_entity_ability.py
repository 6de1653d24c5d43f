"""The section "Objects" asks for an ability: an encoder of another author that places objects gets its map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_pages import parsed, specs_of
from report_runs import SMOKE

from cbr_entity.objects import ObjectMap, plane
from cbr_entity.section import map_figure
from cbr_report.runs import Group
from cbr_report.specs import specification

ENCODER = '''
import hashlib
from types import SimpleNamespace

import numpy as np
import torch

from cbrcore import hookimpl


@hookimpl
def register_context_encoders(registry):
    registry.add("theirs", factory="NAME:FACTORY", summary="a vector per entity")


class Plain(torch.nn.Module):
    """Says nothing about objects."""

    dim = 16

    def __init__(self, config, build):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(self.dim))

    def situation(self, observation, past):
        return "any"

    def contexts_of_pairs(self, pairs):
        if not pairs:
            return torch.zeros(0, self.dim)
        return torch.stack([self._vector(" ".join(entities)) for _, entities in pairs]) * self.scale

    def _vector(self, text):
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        return torch.randn(self.dim, generator=torch.Generator().manual_seed(seed))


class Places(Plain):
    def held_out(self, places):
        with torch.no_grad():
            vectors = self.contexts_of_pairs([("any", (name,)) for name in places]).double().numpy()
        told = SimpleNamespace(accuracy=0.25, chance=0.125, best=0.75)
        return SimpleNamespace(names=tuple(places), vectors=vectors, retriever=told, text=told)


def make(config, build):
    return Places(config, build)


def make_plain(config, build):
    return Plain(config, build)
'''
SETS = (
    "context_encoder={use: NAME/theirs}",
    "run.episodes=1",
    "training.pretrain.episodes=0",
    "evaluation={splits: [in], passes: 1, random_passes: 1, modes: [sampled]}",
)


def reported(here, folder: Path, factory: str) -> tuple[str, str]:
    """(the page, stderr) of a run with the encoder that `factory` makes; each file is a module of its own name."""
    name = f"theirs_{factory.lower()}"
    (folder / f"{name}.py").write_text(ENCODER.replace("NAME", name).replace("FACTORY", factory))
    plugin = ("--plugin", folder / f"{name}.py")
    sets = [word for each in SETS for word in ("--set", each.replace("NAME", name))]
    done = here("run", SMOKE, *sets, *plugin, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    done = here("report", folder / "run", "--no-decisions", *plugin)
    assert done.returncode == 0, done.stderr
    return (folder / "run" / "report.html").read_text(), done.stderr


@pytest.mark.parametrize("factory", ["Places", "make"])
def test_an_encoder_of_another_author_gets_its_map(here, tmp_path, factory):
    """Whether its factory is a class, which tells of the ability, or a function, of which the encoder is asked."""
    page, notes = reported(here, tmp_path, factory)
    assert "objects" not in notes
    titles, *rows = parsed(page).tables["objects"]
    assert titles[3:5] == ["trained", "untrained (fresh weights)"]
    assert [row[3:] for row in rows] == [["0.25", "0.25", "0.25", "0.12", "0.75"]] * 2
    shown = specs_of(page)["objects_map"]["data"]["values"]
    assert len({row["name"] for row in shown}) == len(shown) > 3
    assert all(isinstance(row[axis], float) for row in shown for axis in "xy")


def test_circles_are_seen_objects_whichever_come_first():
    """As the caption says; the objects of a real run begin with unseen ones."""
    names = ("sock", "cap", "cup", "mug")
    places = {name: {"shelf"} for name in names}
    each = ObjectMap(Group((), "BiKE", "Easy"), names, np.eye(4)[:, :2], places, frozenset({"sock", "cap"}), {})
    figure = map_figure([each])
    assert "Circles: objects of the training and IN games. Triangles: objects of the OUT games" in figure.caption
    spec = specification(figure)
    scale = spec["spec"]["layer"][0]["encoding"]["shape"]["scale"]
    shape = dict(zip(scale["domain"], scale["range"], strict=True))
    drawn = {row["name"]: shape[row["kind"]] for row in spec["data"]["values"]}
    assert drawn == {"sock": "triangle-up", "cap": "triangle-up", "cup": "circle", "mug": "circle"}


@pytest.mark.parametrize(("maps", "size"), [(1, (900, 520)), (2, (480, 420))])
def test_one_map_is_drawn_larger_than_several(maps, size):
    names, places = ("sock", "cap"), {"sock": {"shelf"}, "cap": {"rack"}}
    each = [
        ObjectMap(Group((), agent, "Easy"), names, np.eye(2), places, frozenset({"sock"}), {})
        for agent in ("BiKE", "Text")[:maps]
    ]
    drawn = specification(map_figure(each))["spec"]
    assert (drawn["width"], drawn["height"]) == size


def test_a_map_is_of_directions_and_a_vector_without_one_has_a_point_too():
    rows = np.random.default_rng(0).normal(size=(6, 3))
    rows[2] = 0
    found = plane(rows)
    assert np.isfinite(found).all()
    assert np.allclose(found, plane(rows * np.array([[2.0], [4.0], [1.0], [0.5], [8.0], [2.0]])))


@pytest.mark.parametrize("factory", ["Plain", "make_plain"])
def test_an_encoder_without_the_ability_has_no_map_and_no_note(here, tmp_path, factory):
    page, notes = reported(here, tmp_path, factory)
    assert "objects" not in parsed(page).tables
    assert "about-objects" not in page
    assert "map of the objects" not in notes
