"""One door: things of every kind come in by a loose file and by an installed package, and `cbr` runs the commands
among them, whatever else is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_fixtures import Site, run_cbr

from cbrcore.config import NoSettings
from cbrcore.plugins import load_plugins
from cbrcore.registry import CORE_COMMANDS, HOOK_OF_KIND

OLD_KINDS = ("environment", "text_encoder", "context_encoder", "quantizer", "retain_policy", "agent", "launcher")
HELLO = """from cbrcore import hookimpl
@hookimpl
def register_commands(registry): registry.add("hello", factory="{module}:main", summary="Says hello.")
def main(name: str = "world"):
    print(f"hello {{name}}")
"""


def offering(kind: str, module: str) -> str:
    return (
        f"from cbrcore import hookimpl\n\n@hookimpl\ndef {HOOK_OF_KIND[kind]}(registry):\n"
        f"    registry.add('thing', factory='{module}:make', summary='A thing.')\n\ndef make(): ...\n"
    )


def commanding(name: str, body: str = "print('done')", *, factory: str = "", top: str = "") -> str:
    """A plugin with one command."""
    path = factory or '__name__ + ":m"'
    return (
        f"from cbrcore import hookimpl\n{top}\n\n@hookimpl\ndef register_commands(registry):\n"
        f"    registry.add('{name}', factory={path})\n\n"
        f"def m():\n    {body}\n"
    )


@pytest.fixture
def hello(tmp_path: Path, site: Site) -> Path:
    """A loose file with a command."""
    path = tmp_path / "elsewhere" / "hello.py"
    path.parent.mkdir()
    path.write_text(HELLO.format(module="hello"))
    return path


# Every kind


@pytest.mark.parametrize("kind", HOOK_OF_KIND)
def test_a_loose_file_offers_a_thing_of_every_kind(kind: str, site: Site, tmp_path: Path):
    path = tmp_path / "elsewhere" / "my_things.py"
    path.parent.mkdir()
    path.write_text(offering(kind, "my_things"))
    (component,) = load_plugins(files=[path], only=[], strict=True).registry
    assert (component.kind, component.qualified, component.summary) == (kind, "my_things/thing", "A thing.")
    assert component.load_factory() is sys.modules["my_things"].make
    assert component.load_config() is NoSettings


@pytest.mark.parametrize("kind", HOOK_OF_KIND)
def test_an_installed_package_offers_a_thing_of_every_kind(kind: str, site: Site):
    (site.folder / "acme").mkdir()
    (site.folder / "acme" / "parts.py").write_text("def make(): ...\n")
    (site.folder / "acme" / "__init__.py").write_text(offering(kind, "acme.parts"))
    site.distribution("acme-things", "1.2", {"acme": "acme"})
    report = load_plugins(only=["acme"], strict=True)
    (component,) = report.registry
    assert "acme.parts" not in sys.modules
    assert component.load_factory() is sys.modules["acme.parts"].make
    assert report.registry.find(kind, "acme/thing") is component
    assert report.origin(component) == "plugin 'acme' (acme-things 1.2)"


def test_a_plugin_of_the_seven_first_hooks_still_loads(site: Site):
    """Written when each kind had settings, for interface 1."""
    hooks = [
        f"@hookimpl\ndef {HOOK_OF_KIND[kind]}(registry):\n"
        f"    registry.add('old', factory='a.b:C', config='a.c:D', summary='s', requires=('p',))\n"
        for kind in OLD_KINDS
    ]
    site.plugin("old_one", "from cbrcore import hookimpl\n\ncbr_api_version = 1\n\n" + "\n".join(hooks))
    components = load_plugins(only=["old_one"], strict=True).registry
    assert {(c.kind, c.qualified, c.config) for c in components} == {
        (k, "old_one/old", "a.c:D") for k in OLD_KINDS
    }


# Commands


def test_a_loose_file_of_five_lines_adds_a_command(hello: Path, here):
    assert len(hello.read_text().splitlines()) == 5
    before, after = here("--plugin", hello, "hello"), here("hello", "--plugin", hello)
    assert (before.returncode, before.stdout) == (after.returncode, after.stdout) == (0, "hello world\n")
    told = here("hello", "--name", "you", f"--plugin={hello}")
    assert (told.returncode, told.stdout) == (0, "hello you\n")
    assert "Says hello." in here("--plugin", hello, "--help").stdout
    assert "--name" in here("hello", "--plugin", hello, "--help").stdout


def test_without_its_file_the_command_is_unknown(hello: Path, here):
    done = here("hello")
    assert done.returncode == 2
    assert "no such command: 'hello'" in done.stderr


def test_an_installed_plugin_adds_a_command(site: Site, here):
    site.plugin("hello", HELLO.format(module="hello"))
    assert here("hello").stdout == "hello world\n"
    assert "Says hello." in here("--help").stdout


def test_a_typer_gives_a_group_of_commands(site: Site, here, tmp_path: Path):
    source = """
import typer
from cbrcore import hookimpl

@hookimpl
def register_commands(registry):
    registry.add("zoo", factory="zoo:app", summary="Animals.")

app = typer.Typer()

@app.command()
def lion(loud: bool = False):
    print("ROAR" if loud else "roar")

@app.command()
def mouse():
    print("squeak")
"""
    path = tmp_path / "zoo.py"
    path.write_text(source)
    assert here("zoo", "--plugin", path, "lion", "--loud").stdout == "ROAR\n"
    assert here("--plugin", path, "zoo", "mouse").stdout == "squeak\n"
    assert here("zoo", "tiger", "--plugin", path).returncode == 2


def test_what_follows_two_dashes_is_the_commands_own(tmp_path: Path, site: Site, here):
    top = "from typing import Annotated\nimport typer"
    path = tmp_path / "echo.py"
    path.write_text(commanding("echo", top=top).replace("def m():", "def m(words: list[str]):").replace(
        "print('done')", "print(words)"))  # fmt: skip
    assert here("echo", "--plugin", path, "--", "--plugin", "a.py").stdout == "['--plugin', 'a.py']\n"


def test_of_two_plugins_with_one_command_neither_runs_and_both_are_named(site: Site, here):
    site.plugin("one", commanding("twice"), version="1.1")
    site.plugin("two", commanding("twice"), version="2.2")
    done = here("twice")
    assert (done.returncode, done.stdout) == (2, "")
    assert "plugin 'one' (one 1.1)" in done.stderr
    assert "plugin 'two' (two 2.2)" in done.stderr
    overview = plain(here("--help").stdout)
    assert (
        "command 'twice' is offered by plugin 'one' (one 1.1) and plugin 'two' (two 2.2): none is used" in overview
    )
    assert "twice " not in overview.partition("Not all plugins")[0]


@pytest.mark.parametrize("name", CORE_COMMANDS)
def test_the_name_of_a_core_command_is_refused_and_both_are_named(name: str, site: Site, here):
    site.plugin("taker", commanding(name), version="1.1")
    (info,) = [info for info in load_plugins().plugins if info.name == "taker"]
    assert info.status == "refused"
    assert f"the command '{name}' is the core's own (cbrcore)" in info.cause
    if name == "run":
        assert here("run", "--help").returncode == 0
        assert "plugin 'taker' (taker 1.1) refused: the command 'run'" in plain(here("--help").stdout)


FAULTY = {
    "import": commanding("broken", top="", factory="'broken_module:m'"),
    "missing": commanding("broken", factory="'no_such_module:m'"),
    "attribute": commanding("broken", factory="'json:no_such_thing'"),
    "constant": commanding("broken", factory="'json:__name__'"),
    "annotation": commanding("broken").replace("def m():", "def m(x: int | str):"),
    "call": commanding("broken", "1 / 0"),
    "system": commanding("broken", "raise ConnectionRefusedError('no')"),
}


@pytest.mark.parametrize(("how", "code", "said"), [
    ("import", 2, "cannot be imported: ValueError: at import"),
    ("missing", 2, "'no_such_module', which does not exist"),
    ("attribute", 2, "'json:no_such_thing', which does not exist"),
    ("constant", 2, "neither a function nor a typer.Typer"),
    ("annotation", 2, "is not as Typer takes it"),
    ("call", 1, "failed: ZeroDivisionError: division by zero"),
    ("system", 1, "failed: ConnectionRefusedError"),
])  # fmt: skip
def test_a_command_that_fails_is_named_with_its_origin_and_the_others_stand(how, code, said, site: Site, here):
    site.module("broken_module", "raise ValueError('at import')")
    site.plugin("faulty", FAULTY[how], distribution="faulty-dist", version="2.5")
    done = here("broken")
    assert done.returncode == code, done
    assert said in done.stderr
    assert "plugin 'faulty' (faulty-dist 2.5)" in done.stderr
    assert "Traceback" not in done.stderr
    overview = here("--help")
    assert overview.returncode == 0
    assert {"broken", "run", "doctor"} <= listed(overview.stdout)


def test_a_failing_command_leaves_no_traceback_in_a_process_of_its_own(site: Site):
    site.plugin("faulty", commanding("broken", "1 / 0"), version="2.5")
    done = run_cbr("broken")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error: the command 'broken' of plugin 'faulty' (faulty 2.5) failed: ZeroDivision"
    )
    assert "Traceback" not in done.stderr
    assert "Traceback" in run_cbr("broken", env={"CBR_TRACEBACK": "1"}).stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import not_installed_anywhere", "failed: ModuleNotFoundError"),
        ("cbr_api_version = 7", "refused: it is written for plugin interface 7"),
        ("", "empty: provides nothing"),
    ],
)
def test_a_broken_plugin_is_named_in_the_overview(source: str, said: str, site: Site, here):
    site.plugin("faulty", source, distribution="faulty-dist", version="2.5")
    overview = here("--help")
    assert overview.returncode == 0
    assert f"plugin 'faulty' (faulty-dist 2.5) {said}" in overview.stdout
    assert {"run", "doctor", "new-plugin"} <= listed(overview.stdout)


def test_where_nothing_is_wrong_the_overview_says_nothing_of_it(site: Site, here):
    assert "Not all plugins" not in here("--help").stdout


def test_a_plugin_that_is_left_out_leaves_out_its_commands(site: Site, here, monkeypatch: pytest.MonkeyPatch):
    site.plugin("hello", HELLO.format(module="hello"))
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_vq,cbr_doctor")
    assert listed(here("--help").stdout) == {*CORE_COMMANDS, "doctor"}
    assert here("hello").returncode == here("new-plugin", "mine").returncode == 2


def test_the_overview_imports_no_command_and_nothing_heavy(site: Site):
    site.module("quiet_command", "raise SystemExit('must not be imported')")
    site.plugin("quiet", commanding("silence", factory="'quiet_command:main'"))
    code = (
        "import sys\nfrom cbrcore.cli import main\nsys.argv = ['cbr', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print('code', end.code)\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *overview, ended, modules = done.stdout.splitlines()
    assert ended == "code 0"
    assert "silence" in listed("\n".join(overview))
    loaded = {name.partition(".")[0] for name in modules.split()}
    assert not loaded & {"torch", "numpy", "altair", "sklearn", "pydantic", "yaml", "jinja2"}
    shipped = {module for module in modules.split() if module.startswith("cbr_")}
    assert shipped
    assert not [module for module in shipped if "." in module], "a plugin declares without importing its parts"


def plain(text: str) -> str:
    """Without the frame, and on one line."""
    return re.sub(r"[\s│─╭╮╰╯]+", " ", text)


def listed(overview: str) -> set[str]:
    """The commands in an overview."""
    _, _, table = overview.partition("Commands")
    return set(re.findall(r"^[│ ] ([a-z][a-z-]*) ", table.partition("Not all plugins")[0], re.MULTILINE))
