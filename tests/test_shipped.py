"""What a wheel holds, and that an installed one finds its recipes; without network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from cbrcore.recipe import shipped

ROOT = Path(__file__).parents[1]
RECIPES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("recipes/**/*.*"))
QUICKSTART = Path("recipes") / "quickstart.yaml"


def test_a_wheel_holds_the_recipes_and_every_file_of_the_packages(wheel: Path):
    held = set(zipfile.ZipFile(wheel).namelist())
    data = wheel.name.replace("-py3-none-any.whl", ".data/data/share/cbr")
    assert {f"{data}/{recipe}" for recipe in RECIPES} <= held
    for folder in (ROOT / "cbrcore", *(ROOT / "plugins").iterdir()):
        files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        top = folder.parent
        assert {path.relative_to(top).as_posix() for path in files} <= held


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment with the wheel; what the wheel needs it sees in this one."""
    pytest.importorskip("pip")
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    words = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "what_it_needs.pth").write_text(sysconfig.get_path("purelib"))  # after its own
    return python


def test_an_installed_wheel_finds_its_recipes_and_its_plugins_in_any_folder(installed: Path, tmp_path: Path):
    def run(*words: str) -> str:
        done = subprocess.run(
            [installed, *words],
            cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(installed.parents[1]) in run("-c", "import cbrcore; print(cbrcore.__file__)")
    assert "OK" in run("-m", "cbrcore.cli", "check", str(QUICKSTART))
    listed = {each["path"]: each["file"] for each in json.loads(run("-m", "cbrcore.cli", "recipes", "--json"))}
    assert set(listed) == {name for name in RECIPES if name.endswith(".yaml")} - {"recipes/tables/paper.yaml"}
    run("-m", "cbrcore.cli", "new-recipe", "mine")
    schema = (tmp_path / "mine.yaml").read_text().splitlines()[0].partition("$schema=")[2]
    assert schema.endswith("share/cbr/recipes/recipe.schema.json")
    assert (Path(listed[str(QUICKSTART)]).parent / "recipe.schema.json").samefile(schema)
    code = "from cbr_paper.belong import find_paper_file; print(find_paper_file([]))"
    assert run("-c", code).strip().endswith("share/cbr/recipes/tables/paper.yaml")


def test_in_a_source_tree_recipes_are_found_from_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here):
    monkeypatch.chdir(tmp_path)
    assert shipped(QUICKSTART) == ROOT / QUICKSTART
    assert here("check", QUICKSTART).returncode == 0


def test_a_recipe_of_the_working_directory_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here):
    (tmp_path / "recipes").mkdir()
    (tmp_path / QUICKSTART).write_text("schema: 2\n")
    monkeypatch.chdir(tmp_path)
    assert "schema" in here("check", QUICKSTART).stderr


@pytest.mark.parametrize(
    "path", ["recipes/nothing.yaml", "recipes/../README.md", "/recipes/quickstart.yaml", "README.md"]
)
def test_nothing_else_is_found(path: str):
    assert shipped(Path(path)) is None
