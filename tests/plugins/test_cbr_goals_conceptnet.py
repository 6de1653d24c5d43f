"""How near two names are in ConceptNet: by hand, and which files are read."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from cbr_goals.conceptnet import ConceptNet
from cbr_goals.config import ConceptNetConfig
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.testing import PairFeatureSuite

TRIPLES = """
hat AtLocation hat_rack
hat IsA clothes
hat IsA hat
shirt IsA clothes
clothes AtLocation wardrobe
shirt AtLocation wardrobe
dirty_shirt AtLocation basket
lonely IsA lonely
lonely_dirty_shirt IsA lonely_dirty_shirt
"""
FILE = "conceptnet_subgraph.txt"


def write(folder: Path, level: str, split: str = "train", text: str = TRIPLES) -> Path:
    path = folder / level / split / FILE
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def feature(folder: Path | str, **settings) -> ConceptNet:
    return ConceptNet(ConceptNetConfig(games_dir=str(folder), **settings), Build())


class TestConceptNet(PairFeatureSuite):
    pairs = (("hat", "hat rack"), ("hat rack", "hat"), ("red shirt", "unseen thing"), ("", "hat"))

    def make(self, build: Build) -> ConceptNet:
        if not (build.recipe_dir / "games").exists():
            write(build.recipe_dir / "games", "easy")
        return ConceptNet(ConceptNetConfig(games_dir="games"), build)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("hat", "clothes", 1.0),  # neighbours, none in common
        ("hat", "hat rack", 3 * 2 / (1 + math.sqrt(2 * 2))),  # of "hat_rack" (1) and "hat" (2) the greater
        ("hat rack", "hat", (1 + 3 * 2 / (1 + math.sqrt(2 * 2))) / 2),  # both of them
        ("Red Hat", "CLOTHES", 1.0),  # "red hat" is no concept, "hat" is
        ("hat", "shirt", 3 * 1 / (1 + math.sqrt(2 * 2))),  # clothes; a loop is no neighbour
        ("shirt", "wardrobe", 1 + 3 * 1 / (1 + math.sqrt(2 * 2))),
        ("wet dirty shirt", "basket", 0.5),  # "dirty_shirt" 1, "shirt" 0
        ("basket", "wet dirty shirt", 1.0),
        ("wet dirty shirt", "wardrobe", (1 + 3 * 1 / (1 + math.sqrt(2 * 2))) / 2),  # "dirty_shirt" 0
        (
            "shirt of a hat",
            "wardrobe",
            (1 + 1 + 3 * 1 / (1 + math.sqrt(2 * 2))) / 2,
        ),  # the words in the midst, too
        ("hat", "basket", 0.0),
        ("hat", "hat", 3 * 2 / (1 + math.sqrt(2 * 2))),
        ("lonely", "lonely", 0.0),  # without neighbours
        ("lonely dirty shirt", "basket", 0.5),  # such a concept counts for nothing
        ("teapot", "hat", 0.0),
        ("", "", 0.0),
    ],
)
def test_by_hand(one, other, expected, tmp_path):
    write(tmp_path, "easy")
    assert feature(tmp_path).values([(one, other)]).tolist() == pytest.approx([expected])


def test_the_files_of_all_levels_that_have_one_are_read_as_one(tmp_path):
    files = [
        write(tmp_path, "easy", text="hat IsA clothes\n"),
        write(tmp_path, "hard", text="shirt IsA clothes\n"),
    ]
    made = feature(tmp_path)
    assert made.files == files
    assert made.values([("hat", "shirt")]).tolist() == [3 / 2]
    assert feature(tmp_path, levels=("hard",)).values([("hat", "shirt")]).tolist() == [0]


def test_nothing_but_the_train_folder_is_read(tmp_path):
    """What stands in the others would change every value; without them all is the same."""
    for level in ("easy", "medium", "hard"):
        write(tmp_path, level)
        for split in ("in", "out", "valid"):
            write(tmp_path, level, split, "hat IsA basket\nteapot IsA hat\n")
    pairs = [("hat", "basket"), ("teapot", "hat"), ("hat", "clothes")]
    with_others = feature(tmp_path)
    assert {path.parent.name for path in with_others.files} == {"train"}
    assert with_others.values(pairs).tolist() == [0, 0, 1]
    for split in ("in", "out", "valid"):
        for level in ("easy", "medium", "hard"):
            shutil.rmtree(tmp_path / level / split)
    assert feature(tmp_path).values(pairs).tolist() == [0, 0, 1]
    assert set(ConceptNetConfig.model_fields) == {"games_dir", "levels"}


def test_what_is_missing_is_told(tmp_path, monkeypatch):
    with pytest.raises(CbrError, match=r"no folder .*nowhere.*\n.*set CBR_GAMES"):
        feature(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CbrError, match=f"no {FILE} in "):
        feature(tmp_path / "empty")
    write(tmp_path, "easy")
    with pytest.raises(CbrError, match=r"no file .*medium.*\n.*leave `levels` out"):
        feature(tmp_path, levels=("easy", "medium"))
    monkeypatch.delenv("CBR_GAMES", raising=False)
    with pytest.raises(CbrError, match=r"Neither `games_dir` nor CBR_GAMES is set\n"):
        ConceptNet(ConceptNetConfig(), Build())
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    with pytest.raises(CbrError, match=r"no folder .*twc"):
        ConceptNet(ConceptNetConfig(), Build())


def test_only_the_files_of_training_levels_can_be_named():
    for level in ("in", "out", "easy/in", "../easy"):
        with pytest.raises(ValueError, match="levels"):
            ConceptNetConfig(levels=(level,))


def test_the_published_files(games_dir):
    made = ConceptNet(ConceptNetConfig(), Build())
    assert made.files == [games_dir / "twc" / level / "train" / FILE for level in ("easy", "medium")]
    near, far = made.values([("milk", "fridge"), ("milk", "shoe cabinet")]).tolist()
    assert near > far >= 0


@pytest.mark.parametrize(("levels", "told"), [(None, "easy, hard"), (("hard",), "hard")])
def test_whose_file_is_read_is_a_handicap(tmp_path, levels, told):
    for level in ("easy", "hard"):
        write(tmp_path, level)
    says = feature(tmp_path, levels=levels).handicaps["pair_feature"]
    assert says == f"ConceptNet, linked to the training games by their makers ({told})"
