"""`cbr new-plugin`: what it writes is a working distribution, and nothing is ever overwritten."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from plugin_fixtures import Site, run_cbr

from cbr_new_plugin.writing import LONGEST_NAME, SHARED, TEMPLATES, NewPlugin, name_fault, write_plugin
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.plugins import load_plugins
from cbrcore.registry import HOOK_OF_KIND, KINDS

ROOT = Path(__file__).parents[2]
AROUND = ("recipe_section", "command", "check", "report_section")
IN_A_RECIPE = [kind for kind in KINDS if kind not in ("command", "check", "report_section")]
Cbr = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., Any]


def install(site: Site, project: Path) -> None:
    """As pip would: the package on the path, and the metadata that its pyproject.toml states."""
    stated = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    site.expose(project)
    site.distribution(stated["name"], stated["version"], stated["entry-points"]["cbrcore.plugins"])


def written(folder: Path) -> dict[str, str]:
    """Every file below a folder, with its text."""
    return {
        str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture
def projects(site: Site, tmp_path: Path) -> Iterator[dict[str, NewPlugin]]:
    """kind -> a new plugin with a part of that kind, installed. Their names are `my_<kind>`."""
    made = {kind: write_plugin(f"my_{kind}", kind, tmp_path / "work") for kind in KINDS}
    for project in made.values():
        install(site, project.folder)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("my_")]:
        del sys.modules[name]


def run_module(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


# What is written works


def test_there_is_a_template_for_every_kind():
    folders = {path.name for path in TEMPLATES.iterdir() if path.is_dir()}
    assert folders == {*KINDS, "shared"}


def test_every_new_plugin_passes_its_own_tests(projects: dict[str, NewPlugin], tmp_path: Path):
    folders = [project.folder / "tests" for project in projects.values()]
    done = run_module("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, *folders, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout, done.stdout


def test_every_new_plugin_is_found_and_declares_its_part(projects: dict[str, NewPlugin]):
    found = {info.name: info for info in load_plugins().plugins}
    for kind in projects:
        info = found[f"my_{kind}"]
        assert (info.distribution, info.version, info.status, info.cause) == (
            f"my-{kind}".replace("_", "-"),
            "0.1.0",
            "ok",
            "",
        )
        assert [part.kind for part in info.components] == [kind]


def test_every_recipe_is_right_and_uses_the_part(projects: dict[str, NewPlugin], here: Here):
    for kind in IN_A_RECIPE:
        checked = here("check", projects[kind].folder / "recipe.yaml")
        assert checked.returncode == 0, checked.stderr
        named = "  notes" if kind == "recipe_section" else projects[kind].component
        assert (named in checked.stdout) == (kind != "launcher"), checked.stdout


def test_what_to_try_fits_the_recipe(projects: dict[str, NewPlugin], here: Here, tmp_path: Path):
    for kind in IN_A_RECIPE:
        _, command, recipe, *options = shlex.split(projects[kind].try_it)
        assert (command, recipe) == ("sweep" if kind == "launcher" else "run", "recipe.yaml")
        if command == "sweep":
            options += ["--dry-run", "--out", str(tmp_path / "sweep")]
        done = here("check" if command == "run" else command, projects[kind].folder / recipe, *options)
        assert done.returncode == 0, done.stderr


def test_what_to_try_without_a_recipe_is_a_command(projects: dict[str, NewPlugin], here: Here):
    words = [shlex.split(projects[kind].try_it)[1:] for kind in ("command", "check", "report_section")]
    assert words == [["finished", "--help"], ["doctor", "--quick"], ["report", "runs/"]]
    assert here(*words[0]).returncode == 0
    assert "--quick" in here("doctor", "--help").stdout


def test_the_parts_work_together_in_a_sweep(projects: dict[str, NewPlugin], tmp_path: Path, cbr: Cbr):
    """All of them in one recipe; then the command lists the run."""
    parts = {kind: f"{{use: {projects[kind].component}}}" for kind in KINDS if kind not in (*AROUND, "launcher")}
    parts["training.pretrain"], parts["recorders"] = parts.pop("pretraining"), f"[{parts.pop('recorder')}]"
    del parts["pair_feature"]  # a part within another context encoder
    settings = ["reuse_policy.retry_failed=false", "sweep.seed=[0]", "run.episodes=10"]
    values = [*(f"{key}={value}" for key, value in parts.items()), *settings]
    sets = [word for value in values for word in ("--set", value)]
    recipe, launcher = projects["recipe_section"].folder / "recipe.yaml", projects["launcher"].component
    done = cbr("sweep", recipe, *sets, "--launcher", launcher, "--out", tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    run = tmp_path / "sweep" / "seed=0"
    results = json.loads((run / "results.json").read_text())
    assert results["training"]["episodes"] == 10 * 2  # passes over two games
    assert results["training"]["pretraining"]["plays"] == 20
    assert results["evaluation"]["in"]["norm_score"]["mean"] > 0
    assert (run / "memory" / "cases.jsonl").read_text()
    assert (run / "numbers.csv").read_text().startswith("episode,name,value\n1,")
    assert "tags" in (run / "recipe.yaml").read_text()
    assert cbr("finished", tmp_path / "sweep").stdout.startswith("seed=0      20 plays  in ")


@pytest.mark.parametrize("name", ["q", "a" * LONGEST_NAME])
def test_ruff_has_nothing_to_say(name: str, tmp_path: Path):
    """Whatever the length of the name, which decides where lines are broken."""
    pytest.importorskip("ruff")
    for kind in KINDS:
        write_plugin(name, kind, tmp_path / kind)
    for command in (["check"], ["format", "--check"]):
        done = run_module("ruff", *command, "--no-cache", ".", cwd=tmp_path)
        assert done.returncode == 0, done.stdout


def test_the_distribution_can_be_built(tmp_path: Path):
    """With setuptools, as pip does it; no network."""
    pytest.importorskip("setuptools", minversion="77")
    project = write_plugin("my_part", "retain_policy", tmp_path).folder
    code = "from setuptools.build_meta import build_wheel; print(build_wheel('out'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(project / "out" / "my_part-0.1.0-py3-none-any.whl"))
    try:
        (point,) = importlib.metadata.entry_points(group="cbrcore.plugins", name="my_part")
        assert point.dist.metadata["Requires-Dist"].startswith("cbr-textrl")
        assert {str(path) for path in point.dist.files} >= {"my_part/__init__.py", "my_part/policy.py"}
    finally:
        del sys.path[0]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written(kind: str, tmp_path: Path):
    made = write_plugin("my_part", kind, tmp_path)
    files = written(tmp_path / "my_part")
    assert list(files) == list(made.files)
    expected = {"pyproject.toml", "README.md", "my_part/__init__.py"}
    expected |= {"tests/test_my_part.py", "tests/test_my_part_installed.py"}
    expected |= {"my_part/config.py"} if kind not in AROUND else set()
    expected |= {"recipe.yaml", "tests/test_my_part_recipe.py"} if kind in IN_A_RECIPE else set()
    assert expected < set(files)
    assert len(files) == len(expected) + 1  # and the part itself
    for path, text in files.items():
        assert "$" not in text, path
        assert "PACKAGE" not in text, path
        assert text.endswith("\n"), path
        assert not re.search(r"^(from|import) cbrcore\.(?!testing)", text, re.MULTILINE), "public names alone"
    declared = files["my_part/__init__.py"]
    assert HOOK_OF_KIND[kind] in declared
    assert not any(word in declared for word in ("torch", "my_part import"))
    assert "Suite" in files["tests/test_my_part.py"]
    assert made.component.partition("/")[2] in files["README.md"]


def test_a_part_of_the_default_kind_is_built_as_it_is_declared(projects: dict[str, NewPlugin]):
    part = load_plugins().registry.find("retain_policy", "my_retain_policy/recent")
    assert repr(part.load_factory()(part.load_config()(k=3), Build())) == "Recent(k=3)"


def test_every_template_is_packaged():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged = {path for pattern in packages["cbr_new_plugin"] for path in TEMPLATES.parent.glob(pattern)}
    templates = {path for path in TEMPLATES.rglob("*") if path.is_file()}
    assert templates
    assert templates <= packaged


def test_the_kinds_do_not_write_what_all_share():
    for kind in KINDS:
        own = {path.relative_to(TEMPLATES / kind) for path in (TEMPLATES / kind).rglob("*.template")}
        for layer in (TEMPLATES / SHARED).iterdir():
            assert not own & {path.relative_to(layer) for path in layer.rglob("*.template")}


# The command


def test_the_command_writes_and_says_what_to_type_next(tmp_path: Path):
    """Every line it prints is typed, but pip's: the plugin is on the path as if it were installed."""
    made = run_cbr("new-plugin", "early_bird", "--out", tmp_path / "my work")
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "my work" / "early_bird"
    assert made.stdout.splitlines() == [str(folder / file) for file in written(folder)]
    title, *steps = made.stderr.strip().splitlines()
    assert title.startswith("early_bird/recent: a retain policy")
    assert [step.strip() for step in steps] == [
        f"cd '{folder}'",
        "pip install -e '.[test]'",
        "cbr list-plugins -v",
        "python -m pytest",
        "cbr check recipe.yaml",
        "cbr run recipe.yaml --set retain_policy.k=3",
    ]


def test_each_kind_is_named_in_words(here: Here, tmp_path: Path):
    for kind in KINDS:
        said = here("new-plugin", "mine", "--kind", kind, "--out", tmp_path / kind).stderr
        article = "an" if kind in ("agent", "environment") else "a"
        assert f": {article} {kind.replace('_', ' ')}. What to type next:" in said
        assert ("cbr check recipe.yaml" in said) == (kind in IN_A_RECIPE)


def test_it_is_written_here_unless_told_otherwise(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert here("new-plugin", "early_bird").returncode == 0
    assert (tmp_path / "early_bird" / "early_bird" / "policy.py").is_file()


def test_neither_the_help_nor_the_command_imports_anything_heavy(tmp_path: Path):
    code = (
        "import sys\nfrom cbrcore.cli import main\n"
        f"for words in (['--help'], ['early_bird', '--out', {str(tmp_path)!r}]):\n"
        "    sys.argv = ['cbr', 'new-plugin', *words]\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n"
        "        print(end.code, *{'torch', 'numpy', 'transformers', 'textworld'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("0")] == ["0", "0"], done
    assert all(kind in done.stdout for kind in KINDS)


# What is refused


def refused(name: str, kind: str, out: Path) -> CbrError:
    with pytest.raises(CbrError) as caught:
        write_plugin(name, kind, out)
    return caught.value


@pytest.mark.parametrize(
    ("name", "fault", "better"),
    [
        ("Early-Bird", "is no name for a package", "early_bird"),
        ("2nd", "is no name for a package", "my_2nd"),
        ("_hidden_", "is no name for a package", "hidden"),
        ("früh vogel", "is no name for a package", "fruh_vogel"),
        ("../other", "is no name for a package", "other"),
        ("a/b", "is no name for a package", "a_b"),
        ("", "is no name for a package", "my_plugin"),
        ("鳥", "is no name for a package", "my_plugin"),
        ("name\n", "is no name for a package", "name"),
        ("a" * 41, "40 at most", "a" * 37),
        ("class", "is a keyword of Python", "my_class"),
        ("json", "is a module of Python's own library", "my_json"),
        ("tests", "is the name of another folder in a project", "my_tests"),
        ("cbr_vq", "is a plugin that is installed", "my_cbr_vq"),
        ("cbrcore", "would hide the module", "my_cbrcore"),
        ("cbr_nn", "would hide the module", "my_cbr_nn"),
        ("cbr_textrl", "would replace the distribution", "my_cbr_textrl"),
    ],
)
def test_a_name_that_will_not_do_is_refused_with_one_that_does(name: str, fault: str, better: str, tmp_path: Path):
    error = refused(name, "retain_policy", tmp_path)
    assert fault in error.message
    assert error.hint == f"Try: cbr new-plugin {better}"
    assert name_fault(better) is None
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_somebody_elses_plugin_is_refused(thirdparty: Site, tmp_path: Path):
    assert "is a plugin that is installed" in refused("acme_cbr", "agent", tmp_path / "out").message


def test_without_a_better_name_there_is_no_hint(projects: dict[str, NewPlugin], tmp_path: Path, site: Site):
    site.plugin("my_plugin", "")
    assert refused("", "agent", tmp_path / "out").hint is None


def test_an_unknown_kind_is_refused_with_a_suggestion(here: Here, tmp_path: Path):
    done = here("new-plugin", "early_bird", "--kind", "retain-policy", "--out", tmp_path)
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "error: unknown kind 'retain-policy'. Did you mean 'retain_policy'?",
    )
    assert "Choose one of: agent, check, command" in refused("early_bird", "zzz", tmp_path).message
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_anything_is_left_alone(here: Here, tmp_path: Path):
    mine = tmp_path / "early_bird" / "tests" / "test_early_bird.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    done = here("new-plugin", "early_bird", "--out", tmp_path)
    assert done.returncode == 2
    assert "early_bird is not empty" in done.stderr
    assert "--out DIR" in done.stderr
    assert written(tmp_path) == {"early_bird/tests/test_early_bird.py": "mine"}


def test_a_second_time_is_refused(tmp_path: Path):
    write_plugin("early_bird", "agent", tmp_path)
    before = written(tmp_path)
    assert "is not empty" in refused("early_bird", "quantizer", tmp_path).message
    assert written(tmp_path) == before


def test_an_empty_folder_is_filled(tmp_path: Path):
    (tmp_path / "early_bird").mkdir()
    assert write_plugin("early_bird", "agent", tmp_path).folder == tmp_path / "early_bird"
    assert (tmp_path / "early_bird" / "pyproject.toml").is_file()


@pytest.mark.parametrize("taken", ["early_bird", "."])
def test_a_file_in_the_way_is_left_alone(taken: str, tmp_path: Path):
    out = tmp_path / "out"
    way = out / taken if taken != "." else out
    way.parent.mkdir(exist_ok=True)
    way.write_text("mine")
    error = refused("early_bird", "agent", out)
    assert "cannot write" in error.message
    assert error.hint == "name another place: --out DIR"
    assert way.read_text() == "mine"
