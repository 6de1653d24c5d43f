"""What the pages say is run: every block of README, CONTRIBUTING and docs/, and every command that is named."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
from doc_pages import PAGES, PLUGIN_PAGES, ROOT, blocks, commands_in, file_name, name_of, ours_of, prose
from markdown.extensions.toc import slugify
from slow_tests import SLOW, is_slow

from cbrcore import hookspecs
from cbrcore.plugins import load_plugins
from cbrcore.recipe import read_recipe_text, shipped
from cbrcore.registry import KINDS

README, CONTRIBUTING = PAGES[:2]
DOCS = ROOT / "docs"
WRITING = DOCS / "write_a_plugin.md"
SMOKE = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=name_of)


@EVERY_PAGE
def test_every_block_is_of_a_kind_that_is_tested(page):
    """Commands (sh), programs (python) and recipes (yaml) are run below; text is what they print, or a layout."""
    opened = re.findall(r"^\s*```(.+)$", page.read_text(), re.MULTILINE)
    assert set(opened) <= {"sh", "python", "yaml", "text"}
    assert len(opened) * 2 == len(re.findall(r"^\s*```", page.read_text(), re.MULTILINE))
    assert len(opened) == len(blocks(page, "sh", "python", "yaml", "text")), "a block is indented, or has no end"


# recipes


RECIPES = [(page, text) for page in PAGES for text in blocks(page, "yaml")]
WHOLE = [(page, text) for page, text in RECIPES if re.search(r"^schema: 1$", text, re.MULTILINE)]
PARTS = [pair for pair in RECIPES if pair not in WHOLE]


def ids(pairs: list[tuple[Path, str]]) -> list[str]:
    return [f"{name_of(page)}-{text.splitlines()[0].strip('# ')}" for page, text in pairs]


@pytest.mark.parametrize(("page", "text"), WHOLE, ids=ids(WHOLE))
def test_a_recipe_of_a_page_is_valid(page, text):
    read_recipe_text(text, name_of(page), registry=load_plugins().registry)


@pytest.mark.parametrize(("page", "text"), PARTS, ids=ids(PARTS))
def test_a_part_of_a_recipe_on_a_page_goes_into_a_whole_one(page, text, here, tmp_path, monkeypatch, request):
    """Top-level keys that stand instead of those of the smoke recipe."""
    import yaml

    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    (tmp_path / "twc" / "easy").mkdir(parents=True)
    for name in re.findall(r"[\w-]+\.cbr", text):
        shutil.copy(request.getfixturevalue("a_shared_run"), tmp_path / name)
    whole = yaml.safe_load(SMOKE.read_text()) | yaml.safe_load(text)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(whole))
    done = here("check", tmp_path / "recipe.yaml")
    assert done.returncode == 0, done.stderr


def entries(page: Path) -> dict[str, list[str]]:
    """Top-level key -> what a plugin's page writes below it, once or in several ways."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"^(?=\w)", "\n".join(blocks(page, "yaml")), flags=re.MULTILINE):
        if entry.strip() and not entry.startswith("#"):
            found.setdefault(entry.partition(":")[0], []).append(entry)
    return found


@pytest.mark.parametrize("page", [page for page in PLUGIN_PAGES if entries(page)], ids=name_of)
def test_the_parts_of_recipes_on_a_plugins_page_are_valid_together(page, here, tmp_path, monkeypatch):
    import yaml

    for level in ("easy", "hard"):
        (tmp_path / "twc" / level).mkdir(parents=True)
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    base = SMOKE.with_name("text_cbr_jericho.yaml") if page.parent.name == "cbr_jericho" else SMOKE
    found = entries(page)
    for number in range(max(map(len, found.values()))):
        chosen = "".join(ways[min(number, len(ways) - 1)] for ways in found.values())
        whole = yaml.safe_load(base.read_text()) | yaml.safe_load(chosen)
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(whole))
        done = here("check", tmp_path / "recipe.yaml")
        assert done.returncode == 0, done.stderr


# python


@pytest.mark.parametrize("page", [page for page in PLUGIN_PAGES if blocks(page, "python")], ids=name_of)
def test_what_a_program_on_a_plugins_page_imports_is_there(page):
    """It may stand for a part of a plugin; what is whole is run by the plugin's own tests."""
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = import_module(node.module)
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []


@pytest.fixture(scope="module")
def a_run(cbr, tmp_path_factory) -> Path:
    """A small run, for programs that open one."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    done = cbr("run", SMOKE, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def a_shared_run(cbr, a_run) -> Path:
    """It as one file."""
    done = cbr("export", a_run, a_run.with_suffix(".cbr"))
    assert done.returncode == 0, done.stderr
    return a_run.with_suffix(".cbr")


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_the_programs_of_a_page_run(page, tmp_path, cache_dir, request):
    """Blocks that are files are written, their tests pass, and programs run in that folder one after the other."""
    programs = blocks(page, "python")
    files = {file_name(block): block for block in programs if file_name(block)}
    for name, block in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(block)
    for name in set(re.findall(r"open\(\"(runs/[\w-]+)\"\)", "".join(programs))):
        shutil.copytree(request.getfixturevalue("a_run"), tmp_path / name)
    for name in set(re.findall(r"open\(\"([\w-]+\.cbr)\"\)", "".join(programs))):
        shutil.copy(request.getfixturevalue("a_shared_run"), tmp_path / name)
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."]
    jobs = [["-c", block] for block in programs if not file_name(block)]
    jobs += [tests] if any("test_" in name for name in files) else []
    assert jobs or set(files) <= tried_elsewhere(), f"nothing runs {sorted(files)}"
    for job in jobs:
        env = {**os.environ, "CBR_CACHE": str(cache_dir)}
        done = subprocess.run(
            [sys.executable, *job], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr


def tried_elsewhere() -> set[str]:
    """Files that a page's `cbr ... --plugin FILE` lines or a test below use."""
    return set(re.findall(r"--plugin (\w+\.py)", "".join(page.read_text() for page in PAGES)))


def test_the_python_door_prints_what_it_did(tmp_path, cache_dir):
    (program,) = (block for block in blocks(DOCS / "python.md", "python") if "cbr.run(" in block)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "CBR_CACHE": str(cache_dir)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ [\d.]+", lines[0])
    assert all(line.startswith(("agent ", "reuse ")) for line in lines[1:3])


def python_with(word: str) -> str:
    (found,) = (body for body in blocks(WRITING, "python") if word in body)
    return found


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("file", "setting"),
    [("early_bird.py", "retain_policy.use=early_bird/early_bird"), ("curious.py", "agent={use: curious/curious}")],
)
def test_the_plugin_in_a_loose_file_runs(tmp_path, cbr, file, setting):
    (tmp_path / file).write_text(python_with(f"# {file}"))
    done = cbr("run", SMOKE, "--plugin", tmp_path / file, "--set", setting, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert setting.partition("use")[2].strip(":= }") in (tmp_path / "run" / "recipe.yaml").read_text()
    shown = cbr("show", setting.rpartition(" ")[2].rpartition("=")[2].strip("}"), "--plugin", tmp_path / file)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.usefixtures("site")
def test_the_command_and_the_report_section_of_a_loose_file_work(tmp_path, cbr, a_run):
    (tmp_path / "outsider.py").write_text(python_with("# outsider.py"))
    hello = cbr("hello", "--name", "you", "--plugin", "outsider.py", cwd=tmp_path)
    assert (hello.returncode, hello.stdout) == (0, "hello, you\n"), hello.stderr
    examined = cbr("doctor", "--quick", "--plugin", "outsider.py", cwd=tmp_path)
    assert "enough for one sweep" in examined.stdout
    shutil.copytree(a_run, tmp_path / "runs" / "one")
    report = cbr("report", "runs/one", "--no-decisions", "--plugin", "outsider.py", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "Longest episodes" in (tmp_path / "runs" / "one" / "report.html").read_text()


@pytest.mark.timeout(1800)  # two minutes on a machine that does nothing else
@pytest.mark.usefixtures("site")
def test_the_tour_can_be_made(tmp_path, cbr):
    """Each command of ours on the page, in its order, in one folder."""
    tour = DOCS / "tour.md"
    for block in blocks(tour, "yaml"):
        (tmp_path / file_name(block)).write_text(block)
    lines = [line for block in blocks(tour, "sh") for line in commands_in(block) if line.startswith("cbr ")]
    assert len(lines) >= 10
    printed = {}
    for line in lines:
        done = cbr(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        printed[line] = done.stdout
    assert "because" in printed["cbr play runs/quickstart --split out"]
    assert "nearest neighbours" in printed["cbr cases show runs/quickstart 1"]
    assert (tmp_path / "runs" / "quickstart" / "report.html").exists()
    assert "with_cases" in (tmp_path / "runs" / "mine" / "report.md").read_text()


# commands

OTHERS = (
    "python3 -m venv", ". .venv", "pip install", "export ", "for ", "done", "cd ", "python -m pytest", "ruff ",
    "mypy ", "python -m mypy", "mkdocs ", "jupyter ", "python ",
    "pipx ", "uv ",
)  # fmt: skip
"""Words with which lines begin that are no commands of ours; CI runs the installing and testing ones."""
BLOCKS = [block for page in PAGES for block in blocks(page, "sh")] + [
    "\n".join(re.split(r"\s{2,}[^\s#-]", line)[0] for line in ours_of(block))
    for page in PLUGIN_PAGES
    for block in blocks(page, "", "sh")
]
COMMANDS = [line for block in BLOCKS for line in commands_in(block) if line != "do"]
OURS = sorted({line for line in COMMANDS if line.startswith("cbr ")})
OF_A_PAGE = ("hello", "runs")
"""Commands that a page's own plugin offers, or one that `cbr new-plugin` writes."""


def test_every_line_of_the_blocks_is_a_command_that_is_known():
    assert [line for line in COMMANDS if not line.startswith(("cbr ", *OTHERS))] == []


@pytest.fixture(scope="session")
def commands_of(here):
    """What `cbr WORDS --help` lists under its commands."""

    def listed(*words: str) -> list[str]:
        return re.findall(r"^[^\w-]+([a-z][a-z-]*)  +[A-Z]", here(*words, "--help").stdout, re.MULTILINE)

    return listed


def check_command(words: list[str], here, commands_of) -> None:
    """It exists, and so do its options."""
    name, *rest = words[1:]
    within = commands_of(name)
    sub = rest[:1] if rest[:1] and rest[0] in within else ["list"] if "list" in within else []
    helped = here(name, *sub, "--help")
    assert helped.returncode == 0, words
    for option in (word.partition("=")[0] for word in rest if word.startswith("--")):
        assert re.search(rf"{option}\b", helped.stdout), (words, option)


@pytest.mark.parametrize("line", OURS)
def test_the_command_of_a_block_exists_with_its_options_and_recipe(line, here, commands_of, monkeypatch, tmp_path):
    (tmp_path / "twc" / "easy").mkdir(parents=True)
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))  # recipes name it
    words = shlex.split(re.sub(r"[${}]", "", line) if "{use" not in line else line.replace("$", ""))
    words = words[: words.index("|")] if "|" in words else words
    if words[1] not in OF_A_PAGE:
        check_command(words, here, commands_of)
    recipe = next((word for word in words[2:] if re.match(r"recipes/.*\.yaml$", word)), None)
    if recipe is not None and "$" not in line:
        assert shipped(Path(recipe)), recipe
        sets = [part for a, b in pairwise(words) if a == "--set" for part in ("--set", b)]
        loose = "--plugin" in words or "cbr sweep" in line
        checked = here("check", recipe, *([] if loose else sets))
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("page", [*PAGES, *PLUGIN_PAGES], ids=name_of)
def test_every_command_and_option_that_a_sentence_names_exists(page, here, commands_of):
    for line in re.findall(r"`(cbr [a-z][^`]+)`", prose(page).replace("\n", " ")):
        words = [word.strip("[],.…") for word in line.replace("\\", "").replace("|", " ").split()]
        if words[1] in OF_A_PAGE:
            continue
        check_command([word for word in words if word], here, commands_of)


def test_ci_runs_the_commands_that_install_and_test():
    ci = (ROOT / ".ci" / "run").read_text()
    for line in (
        "pip install -q torch==2.13.0",
        "pip install -q -e '.[test,dev]'",
        "python -m pytest -n auto --dist loadfile",
    ):
        assert line in ci
        assert line.replace(" -q", "") in README.read_text()
    for line in ("ruff check .", "ruff format --check .", "mypy cbrcore plugins"):
        assert line in ci
        assert line in CONTRIBUTING.read_text()


def test_every_command_is_on_its_page(commands_of):
    names = commands_of()
    assert {"run", "check"} <= set(names)
    page = (DOCS / "commands.md").read_text()
    assert [name for name in names if f"cbr {name}" not in page] == []


def test_every_hook_is_documented():
    hooks = [name for name in vars(hookspecs) if name.startswith("register_")]
    assert len(hooks) == len(KINDS) >= 17
    assert all(getattr(hookspecs, name).__doc__ for name in hooks)
    text = WRITING.read_text()
    assert [kind for kind in KINDS if f"| [{kind.replace('_', ' ')}](kinds/{kind}.md) |" not in text] == []


# files, links, lists


@pytest.mark.parametrize("page", [*PAGES, *PLUGIN_PAGES], ids=name_of)
def test_files_named_in_the_docs_exist(page):
    named = re.findall(r"`((?:cbrcore|plugins|recipes|tests|docs)/[\w./-]+)`", page.read_text())
    missing = [name for name in named if not (ROOT / name.rstrip("/")).exists()]
    assert missing == []


MADE = {DOCS / "reference", DOCS / "kinds"}
"""Folders of pages that are made when the site is built."""


def anchors(page: Path) -> set[str]:
    return {slugify(title.replace("`", ""), "-") for title in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


@pytest.mark.parametrize("page", [*PAGES, *PLUGIN_PAGES], ids=name_of)
def test_every_link_leads_to_a_file_and_a_title_in_it(page):
    """Where the text is read as it is; the site's links are looked at when it is built."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    for target in (each for each in targets if not re.match(r"https?:", each)):
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if MADE & {there.parent}:
            continue  # tests/test_site.py builds it, and looks at the links
        there = there / "README.md" if (there / "README.md").exists() else there
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_numbers_on_the_first_page_are_those_of_the_results():
    known = "".join(page.read_text() for page in (DOCS / "results").glob("*.md"))
    figures = set(re.findall(r"\d+\.\d+ ± \d+\.\d+|\d+\.\d %", prose(README)))
    assert len(figures) > 15
    assert [each for each in figures if each not in known] == []


def test_the_house_in_contributing_is_the_house():
    house = blocks(CONTRIBUTING, "text")[0]
    folders = re.findall(r"^  (\w+/)", house, re.MULTILINE)
    modules = re.findall(r"^  ([a-z ]+?)   ", house, re.MULTILINE)
    named = [*folders, *(f"{name}.py" for line in modules for name in line.split())]
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "cbrcore" / name).exists()] == []
    top = re.findall(r"^([\w./]+)  ", house, re.MULTILINE)
    assert {"cbrcore/", "plugins/", "docs/", "mkdocs.yml"} <= set(top)
    assert [name for name in top if not (ROOT / name).exists()] == []


def test_every_fault_in_the_table_names_a_test_that_there_is():
    rows = [line for line in (ROOT / "docs" / "faults.md").read_text().splitlines() if line.startswith("| ")][1:]
    named = [re.fullmatch(r"\| .+ \| .+ \| `(tests/[\w/]+\.py)::(test_\w+)` \|", row) for row in rows]
    assert all(named), [row for row, found in zip(rows, named, strict=True) if not found]
    lost = [found[0] for found in named if f"def {found[2]}(" not in (ROOT / found[1]).read_text()]
    assert lost == []
    assert len({found[2] for found in named}) >= 30


def test_the_slow_tests_are_there_and_ci_runs_them_too():
    """Each line of slow_tests.py names some, and `.ci/run` has both commands: what is quick, and what is slow."""
    for line in SLOW:
        path, *names = line.split("::")
        assert (ROOT / "tests" / path).exists(), line
        source = (ROOT / "tests" / path).read_text() if names else ""
        assert all(re.search(rf"(def|class) {name}\b", source) for name in names), line
    assert is_slow("tests/benchmarks/test_twc.py::test_any[1]")
    assert not is_slow("tests/test_docs.py::test_any")
    commands = [
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("python -m pytest")
    ]
    assert commands == [f"python -m pytest -n auto --dist loadfile{more}" for more in ("", " -m slow")]
