"""The command line, run for real in processes of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import typer
from plugin_fixtures import Site, run_cbr
from rich.text import Text

from cbrcore import __version__, cli, commands
from cbrcore.errors import RunFailed
from cbrcore.plugins import load_plugins
from cbrcore.registry import Component

PARTS = """\
from cbrcore import ComponentConfig, NoSettings, hookimpl
from pydantic import Field


class LevelConfig(ComponentConfig):
    level: str = "easy"
    \"\"\"Which games.\"\"\"
    limit: int = Field(default=50, ge=1)
    \"\"\"Longest episode, with a sign that old consoles lack: \\u03c4.\"\"\"


def parts(kind, *names, config="NoSettings"):
    @hookimpl(specname=f"register_{kind}")
    def register(registry):
        for name in names:
            registry.add(name, factory="nowhere:X", config=f"lab:{config}", summary=f"sample {name} \\u2192")
    return register


environments = parts("environments", "games", config="LevelConfig")
context_encoders = parts("context_encoders", "graph")
quantizers = parts("quantizers", "codes")
retain_policies = parts("retain_policies", "all")
text_encoders = parts("text_encoders", "tiny")
agents = parts("agents", "learner", "guesser")
"""
RECIPE = """\
schema: 1
environment: {use: lab/games}
text_encoder: {use: lab/tiny}
context_encoder: {use: lab/graph}
quantizer: {use: lab/codes}
retain_policy: {use: lab/all}
memory: {threshold: 0.6}
agent: {use: lab/learner}
run: {episodes: 1e1}
"""


@pytest.fixture
def lab(site: Site) -> Path:
    """A recipe whose parts are all in the plugin `lab`."""
    site.plugin("lab", PARTS)
    path = site.folder.parent / "recipe.yaml"
    path.write_text(RECIPE)
    return path


Cbr = Callable[..., CompletedProcess[str]]


@pytest.fixture
def cbr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cbr:
    """The command line within this process."""

    def call(*arguments: str | Path) -> CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["cbr", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        return CompletedProcess(arguments, int(str(end.value.code)), said.out, said.err)

    return call


# Help


def leaves(command: Any) -> Iterator[Any]:
    """The command itself, or those of a group; Typer's own copy of click is not the one that is installed."""
    inner = getattr(command, "commands", None)
    yield from [command] if inner is None else (leaf for each in inner.values() for leaf in leaves(each))


def click_command(component: Component) -> Any:
    return typer.main.get_command(cli.as_typer(component.load_factory(), component.name))


def test_no_help_is_taken_for_markup(site: Site):
    """`[default: ...]` in a help text would be a style for rich, and vanish."""
    offered = [*cli.CORE.values(), *load_plugins(strict=True).registry.of_kind("command")]
    made = [leaf for component in offered for leaf in leaves(click_command(component))]
    options = [each for command in made for each in command.params if getattr(each, "help", None)]
    assert {"run", "show", "list"} <= {command.name for command in made}
    assert len(options) > 80
    for each in options:
        assert Text.from_markup(each.help).plain == each.help, f"{each.opts}: {each.help}"
    for component in offered:
        assert Text.from_markup(component.summary).plain == component.summary


def test_help_names_arguments_as_they_are_written_and_tells_no_type_of_a_flag(cbr: Cbr):
    """Of every command: `RECIPE`, not `{RECIPE} <path>`; `--json`, not `--json <bool>`."""
    names = [*cli.CORE, *(component.name for component in load_plugins().registry.of_kind("command"))]
    for words in ([], *([name] for name in names), ["cases", "list"], ["games", "add"]):
        text = cbr(*words, "--help").stdout
        arguments = "".join(re.findall(r"─ Arguments ─.*?╰", text, re.DOTALL))
        assert re.findall(r"<bool>|<path>|Usage.*[{}]", text) + re.findall("<.*?>", arguments) == [], words
    assert "Usage: cbr check [OPTIONS] RECIPE\n" in re.sub(" +\n", "\n", cbr("check", "--help").stdout)
    assert "[OPTIONS] RUN...\n" in re.sub(" +\n", "\n", cbr("compare", "--help").stdout)
    assert "[OPTIONS] [DIR]\n" in re.sub(" +\n", "\n", cbr("runs", "--help").stdout)
    assert re.search(r"RECIPE +The recipe file", cbr("run", "--help").stdout)
    assert re.search(r"--seed +<int>", cbr("run", "--help").stdout)


# What to type next

TOY = ("environment={use: toy_plugin/toy}", "training.pretrain=null", "run.episodes=2", "recorders=[]")
PLAIN = ("memory=null", "context_encoder=null", "quantizer=null", "retain_policy=null", "reuse_policy=null")


@pytest.mark.parametrize("sets", [(), PLAIN], ids=["with cases", "without"])
def test_a_run_says_what_to_type_next(here, tmp_path, monkeypatch, sets):
    tests = Path(__file__).parent
    plugin, words = tests / "toy_plugin.py", [word for each in (*TOY, *sets) for word in ("--set", each)]
    monkeypatch.chdir(tmp_path)
    recipe = tests.parent / "recipes" / "smoke" / "text_cbr_generated.yaml"
    done = here("run", recipe, *words, "--out", "runs/a b", "--plugin", plugin)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("next: ")]
    loose = f"'runs/a b' --plugin {plugin}"
    cases = [] if sets else ["next: cbr cases 'runs/a b'"]
    assert told == [f"next: cbr report {loose}", f"next: cbr play {loose}", *cases]
    assert done.stdout.endswith(f"run folder: {tmp_path / 'runs' / 'a b'}\n")
    for line in told:
        assert here(*shlex.split(line)[2:], "--help").returncode == 0


# Light


LIGHT = [
    ["--help"], ["--version"], ["check", "--help"], ["list-plugins"], ["list-plugins", "-v"],
    ["list-plugins", "--json"], ["show", "cbr_text/text"], ["show", "acme_cbr/sign", "--json"],
    ["check", "RECIPE"], ["recipes", "--json"],
]  # fmt: skip
ALL_IN_ONE_PROCESS = """
import sys
from cbrcore.cli import main

for arguments in ARGUMENTS:
    sys.argv = ["cbr", *arguments]
    try:
        main()
    except SystemExit as end:
        heavy = {"torch", "textworld", "transformers", "jericho", "spacy", "torch_geometric"} & set(sys.modules)
        print(end.code, *arguments, *heavy, file=sys.stderr)
"""


def test_no_light_command_imports_anything_heavy(thirdparty: Site, lab: Path):
    commands = [[str(lab) if word == "RECIPE" else word for word in arguments] for arguments in LIGHT]
    code = ALL_IN_ONE_PROCESS.replace("ARGUMENTS", repr(commands))
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert answer.stderr.splitlines() == [f"0 {' '.join(arguments)}" for arguments in commands]


def test_version(cbr: Cbr):
    assert cbr("--version").stdout == f"cbr {__version__}\n"


def test_the_installed_command_is_this_one():
    answer = subprocess.run([Path(sys.executable).with_name("cbr"), "--version"], capture_output=True, text=True)
    assert answer.stdout == f"cbr {__version__}\n"


# list-plugins


def test_list_plugins_as_json_is_the_only_thing_on_stdout(thirdparty: Site):
    answer = run_cbr("list-plugins", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    acme = {info["name"]: info for info in json.loads(answer.stdout)}["acme_cbr"]
    assert (acme["distribution"], acme["version"], acme["status"], acme["cause"]) == (
        "acme-cbr",
        "0.3.1",
        "ok",
        "",
    )
    assert [component["name"] for component in acme["components"]] == ["sign", "bag"]
    assert acme["milliseconds"] > 0


def test_list_plugins_names_what_is_broken_and_why(cbr: Cbr, site: Site):
    site.plugin("broken", "import not_there", distribution="broken-dist", version="1.2")
    lines = cbr("list-plugins").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("broken")]
    for part in ("broken-dist", "1.2", "failed", "No module named 'not_there'"):
        assert part in line
    assert any(line.startswith("cbr_vq ") and " ok " in line for line in lines)


def test_list_plugins_verbose_describes_every_component(cbr: Cbr, thirdparty: Site):
    text = cbr("list-plugins", "-v").stdout
    assert "quantizer" in text
    assert "acme_cbr/sign" in text
    assert "sign bits of the context; similarity = share of equal signs" in text


def test_a_terminal_gets_a_table(lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.argv", ["cbr", "list-plugins", "-v"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as end:
        cli.main()
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert "lab/codes" in out
    assert "sample codes" in out


def test_strict_mode_fails_with_the_plugins_name(cbr: Cbr, site: Site, monkeypatch: pytest.MonkeyPatch):
    site.plugin("broken", "import not_there")
    monkeypatch.setenv("CBR_STRICT_PLUGINS", "1")
    answer = cbr("list-plugins")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: plugin 'broken' (broken 1.0) failed:")
    assert "Traceback" not in answer.stderr


# show


def test_show_prints_type_default_bounds_and_description(cbr: Cbr, thirdparty: Site):
    text = cbr("show", "acme_cbr/sign").stdout
    assert text.splitlines()[0] == "acme_cbr/sign (quantizer, from acme-cbr 0.3.1)"
    assert "requires: torch" in text
    (line,) = [line for line in text.splitlines() if line.startswith("slope")]
    assert re.split("  +", line) == ["slope", "number", "default 2.0", "more than 0"]
    assert "    Steepness of the soft sign that carries the gradient." in text


def test_show_as_json(cbr: Cbr, thirdparty: Site):
    (found,) = json.loads(cbr("show", "bag", "--json").stdout)
    assert (found["qualified"], found["kind"], found["version"]) == ("acme_cbr/bag", "agent", "0.3.1")
    assert found["settings"] == [
        {
            "path": "buckets", "type": "whole number", "default": 64, "required": False,
            "bounds": "at least 2 and at most 65536", "description": "Words are hashed into so many buckets.",
        }
    ]  # fmt: skip


def test_show_says_that_there_are_no_settings(cbr: Cbr, lab: Path):
    assert "It has no settings." in cbr("show", "lab/codes").stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("acme_cbr/sing", "Did you mean 'acme_cbr/sign'?"),
        ("acme_cbr", "Choose one of: acme_cbr/sign, acme_cbr/bag."),
    ],
)
def test_show_helps_with_a_wrong_name(cbr: Cbr, thirdparty: Site, name: str, said: str):
    answer = cbr("show", name)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: ")
    assert said in answer.stderr


# check


def test_check_prints_the_resolved_parts(cbr: Cbr, lab: Path):
    overrides = ["agent.use=guesser", "seed=7", "environment.limit=9", "sweep={seed: [0, 1]}"]
    answer = cbr("check", lab, *(word for override in overrides for word in ("--set", override)))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [line.split(maxsplit=1) for line in answer.stdout.splitlines()] == [
        ["OK", "recipe"],
        ["seed", "7"],
        ["environment", 'lab/games  {"limit": 9}'],
        ["text_encoder", "lab/tiny"],
        ["context_encoder", "lab/graph"],
        ["quantizer", "lab/codes"],
        ["memory", 'cbr_memory/case_memory  {"threshold": 0.6}'],
        ["reuse_policy", "cbr_reuse/most_relevant"],
        ["retain_policy", "lab/all"],
        ["agent", "lab/guesser"],
        ["learner", "cbr_a2c/a2c"],
        ["recorder", "cbr_tensorboard/tensorboard"],
        ["training", "defaults"],
        ["training.pretrain", "cbr_pretrain/contrastive"],
        ["evaluation", "defaults"],
        ["run", '{"episodes": 10}'],
        ["sweep", "seed         [0, 1]"],
        ["runs", "2"],
    ]


def test_check_reports_everything_that_is_wrong_and_exits_2(cbr: Cbr, lab: Path):
    lab.write_text(RECIPE.replace("0.6", "6").replace("lab/learner", "lab/lerner") + "lr: 1\n")
    answer = cbr("check", lab, "--set", "seed=x")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.splitlines() == [
        "error: the recipe has 4 problems",
        f"{lab}:7: memory.threshold: must be at least 0 and at most 1, got 6",
        f"{lab}:8: agent.use: unknown agent 'lab/lerner'. Did you mean 'lab/learner'?",
        f"{lab}:10: lr: unknown key. Did you mean training.agent_learning_rate?",
        "--set seed=x: seed: must be a whole number, got the text 'x'",
    ]


def test_a_single_problem_stands_in_the_first_line(cbr: Cbr, lab: Path):
    answer = cbr("check", lab.with_name("recipes.yaml"))
    assert answer.returncode == 2
    assert answer.stderr == f"error: {lab.with_name('recipes.yaml')}: no such file. Did you mean 'recipe.yaml'?\n"


def test_a_recipe_that_uses_a_third_party_plugin_passes(cbr: Cbr, thirdparty: Site, lab: Path):
    lab.write_text(
        RECIPE.replace("lab/codes", "acme_cbr/sign").replace("lab/learner", "acme_cbr/bag, buckets: 32")
    )
    answer = cbr("check", lab)
    assert answer.returncode == 0, answer.stderr
    assert "acme_cbr/sign" in answer.stdout


def test_only_a_recipe_that_needs_a_broken_plugin_fails(cbr: Cbr, lab: Path, site: Site):
    site.plugin("broken", "import not_there")
    answer = cbr("check", lab)
    assert answer.returncode == 0
    assert answer.stderr.startswith("warning: plugin 'broken' (broken 1.0) failed: ModuleNotFoundError")
    lab.write_text(RECIPE.replace("lab/learner", "broken/learner"))
    answer = cbr("check", lab)
    assert answer.returncode == 2
    assert "Its plugin could not be loaded: ModuleNotFoundError" in answer.stderr


def test_a_missing_extra_is_reported_when_it_is_used_with_the_command_to_install_it(
    cbr: Cbr, lab: Path, site: Site
):
    site.module("settings_with_needs", "import library_x")
    source = "from cbrcore import hookimpl\n\n@hookimpl\ndef register_agents(registry):\n    registry.add('a', "
    site.plugin("needy", source + "factory='x:Y', config='settings_with_needs:A', requires=['library-x'])\n")
    assert cbr("list-plugins").returncode == 0
    lab.write_text(RECIPE.replace("lab/learner", "needy/a"))
    answer = cbr("check", lab)
    assert answer.returncode == 2
    assert "needs the module 'library_x'" in answer.stderr
    assert "pip install library-x" in answer.stderr


# --plugin FILE


def test_a_loose_plugin_file_works_with_every_command(cbr: Cbr, tmp_path: Path, site: Site):
    file = tmp_path / "lab.py"
    file.write_text(PARTS)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    assert cbr("check", recipe).returncode == 2
    assert cbr("check", recipe, "--plugin", file).returncode == 0
    assert "limit" in cbr("show", "lab/games", "--plugin", file).stdout
    listed = json.loads(cbr("list-plugins", "--plugin", file, "--json").stdout)
    assert (listed[-1]["name"], listed[-1]["distribution"]) == ("lab", str(file))


def test_a_loose_plugin_file_that_is_missing_is_an_error(cbr: Cbr, tmp_path: Path):
    answer = cbr("list-plugins", "--plugin", tmp_path / "lab.py")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"error: --plugin {tmp_path / 'lab.py'}: no such file\n"


# How it ends


def test_a_command_that_is_alone_keeps_its_name(cbr: Cbr, site: Site, lab: Path, monkeypatch: pytest.MonkeyPatch):
    """A Typer with one command would otherwise be that command, and take no name."""
    monkeypatch.setattr(cli, "CORE", {"check": cli.CORE["check"]})
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "lab,cbr_memory,cbr_reuse,cbr_a2c,cbr_pretrain,cbr_tensorboard")
    answer = cbr("check", lab)
    assert answer.returncode == 0, answer.stderr
    assert "OK" in answer.stdout
    assert all(click_command(component).name == name for name, component in cli.CORE.items())


@pytest.mark.parametrize(
    "arguments", [["unknown"], ["check"], ["check", "a", "b"], ["show", "x", "--nonsense"], []]
)
def test_wrong_usage_exits_2_without_a_traceback(cbr: Cbr, arguments: list[str]):
    answer = cbr(*arguments)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert "Usage: cbr" in answer.stdout + answer.stderr


def test_an_unknown_command_is_told_with_the_usage_and_what_was_probably_meant(cbr: Cbr):
    answer = cbr("shwo")
    assert (answer.returncode, answer.stdout) == (2, "")
    usage, said, _ = answer.stderr.splitlines()
    assert usage.startswith("Usage: cbr ")
    assert said == "error: no such command: 'shwo'. Did you mean 'show'?"


def test_the_command_of_a_plugin_that_is_left_out_is_unknown(
    cbr: Cbr, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_twc")
    answer = cbr("games", "list")
    assert (answer.returncode, answer.stdout) == (2, "")
    _, said, hint = answer.stderr.splitlines()
    assert "no such command: 'games'" in said
    assert hint.startswith("  these plugins are not loaded: ")
    assert "cbr_jericho" in hint
    assert "cbr_twc" not in hint
    assert "CBR_LOAD_PLUGINS" in hint


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (RunFailed("it broke", hint="read run.log"), 1, "error: it broke\n  read run.log\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_end_with_their_own_exit_code(
    lab: Path, monkeypatch, capsys, raised: BaseException, code: int, said: str
):
    def fail(*arguments: object, **options: object) -> None:
        raise raised

    monkeypatch.setattr(commands, "checked_recipe", fail)
    monkeypatch.setattr("sys.argv", ["cbr", "check", str(lab)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == code
    assert said in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_exits_130(site: Site):
    marker = site.folder / "started"
    site.plugin("slow", f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(60)")
    process = subprocess.Popen(
        [sys.executable, "-m", "cbrcore.cli", "list-plugins"], stderr=subprocess.PIPE, text=True
    )
    while not marker.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["list-plugins", "-v"], ["show", "lab/games"], ["check", "nowhere_\u03c4.yaml"]],
    ids=" ".join,
)
def test_consoles_without_unicode_show_something(lab: Path, arguments: list[str]):
    answer = subprocess.run(
        [sys.executable, "-m", "cbrcore.cli", *arguments],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
        check=False,
    )
    assert answer.returncode == (2 if "check" in arguments else 0), answer.stderr
    assert (answer.stdout + answer.stderr).decode("cp1252")
    assert b"Traceback" not in answer.stderr


def test_a_closed_pipe_is_not_a_crash(lab: Path):
    process = subprocess.run(
        f"{sys.executable} -m cbrcore.cli list-plugins -v | head -n 1", shell=True, capture_output=True, text=True
    )
    assert process.stdout.startswith("plugin")
    assert "Traceback" not in process.stderr


# Commands of plugins

COMMANDS = """\
import errno
import os
from typing import Annotated

import typer
from cbrcore import CbrError, hookimpl


def words(
    given: Annotated[list[str] | None, typer.Argument()] = None,
    *,
    plural: bool = False,
) -> None:
    typer.echo(repr((given or [], plural)))


def loads(*, plugin: Annotated[list[str] | None, typer.Option("--plugin")] = None) -> None:
    typer.echo(repr(plugin))


several = typer.Typer()
several.command("loads")(loads)
several.command("words")(words)


RAISED = {
    "value": ValueError("no such thing"),
    "left": SystemExit(3),
    "no-file": OSError(errno.ENODEV, "No such device"),
    "of-a-file": PermissionError(errno.EACCES, "Permission denied", "/there"),
    "exit": typer.Exit(5),
    "abort": typer.Abort(),
    "usage": typer.BadParameter("not so"),
    "ours": CbrError("wrong", hint="do this"),
    "key": KeyboardInterrupt(),
}


def odd(given: list[list[int]]) -> None:
    pass


def fails(name: str) -> None:
    if name == "loop":
        try:
            raise OSError(errno.ELOOP, "Too many links", "/circle")
        except OSError:
            raise RuntimeError("a loop")
    if name == "other":
        try:
            raise OSError(errno.EACCES, "Permission denied", "/there")
        except OSError:
            raise RuntimeError("not of the file")
    raise RAISED[name]


@hookimpl
def register_commands(registry):
    for name in ("words", "loads", "several", "fails", "number", "odd"):
        registry.add(name, factory=f"talker:{name}", summary=f"says {name} [so]")


number = 3
"""


@pytest.fixture
def talker(tmp_path: Path, site: Site) -> Path:
    """A loose file with commands."""
    path = tmp_path / "talker.py"
    path.write_text(COMMANDS)
    return path


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("words FILE a b", ["a", "b"]),
        ("words a FILE b", ["a", "b"]),
        ("words a b FILE", ["a", "b"]),
        ("words a -- b", None),
        ("words a FILE -- b --plugin c --plugin=d", ["a", "b", "--plugin", "c", "--plugin=d"]),
        ("words a FILE -- FILE", ["a", "--plugin", "TALKER"]),
        ("FILE words a", ["a"]),
        ("FILE words FILE a", ["a"]),
    ],
)
@pytest.mark.parametrize("form", ["--plugin {}", "--plugin={}"])
def test_a_loose_file_is_no_word_of_its_command(cbr: Cbr, talker: Path, typed: str, given, form: str):
    said = form.format(talker)
    answer = cbr(*typed.replace("FILE", said).split())
    if given is None:
        assert (answer.returncode, answer.stdout) == (2, "")
        assert "no such command: 'words'" in answer.stderr
    else:
        wanted = " ".join(given).replace("--plugin TALKER", said).split()
        assert (answer.returncode, answer.stdout) == (0, f"{(wanted, False)}\n"), answer.stderr


def test_a_command_that_loads_plugins_itself_is_told_the_files(cbr: Cbr, talker: Path):
    for typed in (["--plugin", talker, "loads"], ["loads", "--plugin", talker]):
        answer = cbr(*typed)
        assert (answer.returncode, answer.stdout) == (0, f"{[str(talker)]}\n"), answer.stderr
    assert cbr("loads").returncode == 2


@pytest.mark.parametrize("typed", ["FILE several loads", "several loads FILE", "FILE several words a"])
def test_so_is_one_of_several_commands_under_a_name(cbr: Cbr, talker: Path, typed: str):
    answer = cbr(*typed.replace("FILE", f"--plugin {talker}").split())
    wanted = (["a"], False) if typed.endswith("a") else [str(talker)]
    assert (answer.returncode, answer.stdout) == (0, f"{wanted}\n"), answer.stderr


@pytest.mark.parametrize("command", ["check", "list-plugins"])
def test_a_file_named_before_a_command_of_the_core_is_loaded(cbr: Cbr, tmp_path: Path, site: Site, command: str):
    (tmp_path / "lab.py").write_text(PARTS)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    typed = [command, tmp_path / "recipe.yaml"] if command == "check" else [command]
    answer = cbr("--plugin", tmp_path / "lab.py", *typed)
    assert answer.returncode == 0, answer.stderr
    assert "lab" in answer.stdout


WHOSE = "error: the command 'fails' of "
WHERE = "  see where: CBR_TRACEBACK=1 cbr ...\n"


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("value", 1, [WHOSE, " failed: ValueError: no such thing\n" + WHERE]),
        ("left", 1, [WHOSE, " failed: SystemExit: 3\n" + WHERE]),
        ("no-file", 1, [WHOSE, " failed: OSError: [Errno 19] No such device\n" + WHERE]),
        ("other", 1, [WHOSE, " failed: RuntimeError: not of the file\n" + WHERE]),
        ("of-a-file", 2, ["error: /there: Permission denied\n  see to the permissions there"]),
        ("loop", 2, ["error: /circle: Too many links\n  the link leads back to itself"]),
        ("ours", 2, ["error: wrong\n  do this\n"]),
        ("usage", 2, ["Usage: cbr fails", "not so"]),
        ("exit", 5, []),
        ("abort", 1, ["Aborted"]),
        ("key", 130, ["error: interrupted\n"]),
    ],
)
def test_what_a_command_of_a_plugin_raises_is_told_as_what_it_is(
    cbr: Cbr, talker: Path, raised: str, code: int, said: list[str]
):
    answer = cbr("fails", raised, "--plugin", talker)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert [part for part in said if part not in answer.stderr] == []
    assert (WHOSE in answer.stderr) == (WHOSE in said)
    assert bool(answer.stderr) == bool(said)


@pytest.mark.parametrize(
    ("raised", "error"), [("value", ValueError), ("of-a-file", PermissionError), ("loop", RuntimeError)]
)
def test_whoever_asks_for_a_traceback_gets_the_error_itself(talker: Path, monkeypatch, raised: str, error: type):
    monkeypatch.setattr(sys, "argv", ["cbr", "fails", raised, "--plugin", str(talker)])
    monkeypatch.setenv("CBR_TRACEBACK", "1")
    with pytest.raises(error):
        cli.main()


def test_a_command_that_is_none_names_whose_it_is(cbr: Cbr, talker: Path):
    answer = cbr("number", "--plugin", talker)
    said = "error: command 'talker/number' is neither a function nor a typer.Typer "
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"{said}[plugin 'talker' ({talker} sha256:")


def test_a_command_that_typer_does_not_take_names_whose_it_is(cbr: Cbr, talker: Path):
    answer = cbr("odd", "--plugin", talker)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: command 'talker/odd' is not as Typer takes it: ")
    assert f"[plugin 'talker' ({talker} sha256:" in answer.stderr


def test_the_overview_has_the_cores_commands_first_and_those_of_a_file_with_their_summary(cbr: Cbr, talker: Path):
    answer = cbr("--plugin", talker, "--help")
    assert answer.returncode == 0
    found = [
        line.strip("│ ").split()[0] for line in answer.stdout.splitlines() if "│ " in line and "--" not in line
    ]
    names = [name for name in found if name in {*cli.CORE, "fails", "words", "cases"}]
    assert names == [*cli.CORE, "cases", "fails", "words"]
    assert "says words [so]" in answer.stdout
    assert "Not all plugins are as they should be" not in answer.stdout


def test_a_command_of_two_plugins_is_nobodys(cbr: Cbr, site: Site):
    for name in ("one", "two"):
        site.plugin(name, COMMANDS.replace('("words", "loads", "fails", "number", "odd")', '("words",)'))
    assert "says words" not in cbr("--help").stdout
    answer = cbr("words")
    assert (answer.returncode, answer.stdout) == (2, "")
    both = "plugin 'one' (one 1.0) and by plugin 'two' (two 1.0)"
    assert answer.stderr.startswith(f"error: the command 'words' is offered by {both}\n  uninstall one of them")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            [],
            "error: name a RECIPE to run, or a run to start from, or one to continue\n  cbr run RECIPE",
        ),
        (["--resume", "nowhere"], "error: nowhere"),
        (["nowhere.yaml"], "error: nowhere.yaml: no such file."),
    ],
)
def test_a_run_of_nothing_is_an_error(cbr: Cbr, tmp_path: Path, monkeypatch, typed: list[str], said: str):
    monkeypatch.chdir(tmp_path)
    answer = cbr("run", *typed)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(said)
    assert list(tmp_path.iterdir()) == []


RESULTS = {
    "name": "toy",
    "evaluation": {},
    "training": {"episodes": 3, "avg_score_last_100": 1.0, "best_score": 2.0},
    "protocol": {"games": {"train": {}}},
}


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What `run` and `evaluate` hand on; nothing is trained."""
    from cbrcore import runs

    seen: list[Any] = []

    def take(name: str, answer: Any) -> Callable[..., Any]:
        def taken(recipe: Any, report: Any, *rest: Any, **options: Any) -> Any:
            assert "lab" in {info.name for info in report.plugins}
            seen.append((name, recipe.seed, recipe.run.device, recipe.memory.settings.threshold, *rest, options))
            return answer

        return taken

    folder = tmp_path / "made"
    for name, answer in (("start", (RESULTS, folder)), ("resume", (RESULTS, folder)), ("evaluate", RESULTS)):
        monkeypatch.setattr(runs, name, take(name, answer))
    return seen


@pytest.fixture
def stored(lab: Path) -> Path:
    """A folder with a recipe, as a run leaves one; a file that it needed is gone."""
    folder = lab.parent / "stored"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(RECIPE.replace("threshold: 0.6", "threshold: 0.6, cases: gone"))
    return folder


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("run RECIPE", ("start", 0, "auto", 0.6, None, {"overwrite": False})),
        ("run RECIPE --seed 0 --set seed=3", ("start", 0, "auto", 0.6, None, {"overwrite": False})),
        (
            "run RECIPE --set seed=3 --set memory.threshold=0.5",
            ("start", 3, "auto", 0.5, None, {"overwrite": False}),
        ),
        ("run RECIPE --device cpu --seed 7", ("start", 7, "cpu", 0.6, None, {"overwrite": False})),
        ("run RECIPE --out there --overwrite", ("start", 0, "auto", 0.6, Path("there"), {"overwrite": True})),
        ("run --resume STORED", ("resume", 0, "auto", 0.6, Path("STORED"), {})),
        ("run --resume STORED --device cpu", ("resume", 0, "cpu", 0.6, Path("STORED"), {})),
        ("run --resume STORED --out there", None),
        ("run --resume STORED --overwrite", None),
        ("run RECIPE --resume STORED --set seed=4", ("resume", 4, "auto", 0.6, Path("STORED"), {})),
        ("evaluate STORED", ("evaluate", 0, "auto", 0.6, Path("STORED"), (), {})),
        ("evaluate STORED --split a --split b", ("evaluate", 0, "auto", 0.6, Path("STORED"), ["a", "b"], {})),
        ("evaluate STORED --device cpu", ("evaluate", 0, "cpu", 0.6, Path("STORED"), (), {})),
    ],
)
def test_what_a_run_is_told(cbr: Cbr, lab: Path, stored: Path, handed: list[Any], typed: str, taken):
    names = {"RECIPE": str(lab), "STORED": str(stored)}
    answer = cbr(*(names.get(word, word) for word in typed.split()))
    if taken is None:
        assert (answer.returncode, handed) == (2, [])
        assert "leave out --out and --overwrite" in answer.stderr
        return
    assert answer.returncode == 0, answer.stderr
    assert handed == [tuple(stored if part == Path("STORED") else part for part in taken)]
    folder = stored if "evaluate" in typed else lab.parent / "made"
    table, said = answer.stdout.split("\n\n")
    assert table.startswith("| training on | initial | last 3 episodes |")
    assert said == f"run folder: {folder}\n"


def test_a_run_of_a_sweep_says_that_it_is_one_run(cbr: Cbr, lab: Path, handed: list[Any]):
    said = f"note: this is one run; what {lab} says under 'sweep:' is not carried out\n"
    assert said in cbr("run", lab, "--set", "sweep={seed: [0, 1]}").stderr
    assert "note:" not in cbr("run", lab).stderr
    assert len(handed) == 2


def test_a_new_run_needs_all_files(cbr: Cbr, lab: Path, handed: list[Any]):
    answer = cbr("run", lab, "--set", "memory.cases=gone")
    assert (answer.returncode, handed) == (2, [])
    assert "no such file or folder" in answer.stderr
