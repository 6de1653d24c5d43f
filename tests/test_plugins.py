"""The plugin host: every rule by which a plugin is loaded, refused or left out."""

from __future__ import annotations

import json
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from plugin_fixtures import Site, run_cbr

from cbrcore import hookspecs
from cbrcore.errors import CbrError, PluginError
from cbrcore.plugins import GROUP, PluginInfo, load_plugins
from cbrcore.registry import HOOK_OF_KIND

GOOD = """
from cbrcore import hookimpl

@hookimpl
def register_agents(registry):
    registry.add("good", factory="somewhere.agent:Agent", config="cbrcore.config:NoSettings")
"""


def load_one(name: str, **options: object) -> PluginInfo:
    """Load one plugin of the site; what became of it."""
    report = load_plugins(only=[name], **options)
    (info,) = [info for info in report.plugins if info.status != "skipped"]
    assert info.name == name
    return info


def with_hook(body: str, *, hook: str = "register_agents", arguments: str = "registry") -> str:
    return f"from cbrcore import hookimpl\n\n@hookimpl\ndef {hook}({arguments}):\n    {body}\n"


# What is shipped


def test_every_shipped_plugin_loads_with_its_distribution_and_components():
    report = load_plugins(strict=True)
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    ours = {info.name: info for info in report.plugins if info.distribution == declared["name"]}
    assert set(ours) == set(declared["entry-points"][GROUP])
    assert all(info.status == "ok" and info.components and info.version for info in ours.values())
    assert [info.name for info in report.plugins] == sorted(info.name for info in report.plugins)


def test_every_hook_is_documented_and_belongs_to_a_kind():
    hooks = {name for name in vars(hookspecs) if name.startswith("register_")}
    assert hooks == set(HOOK_OF_KIND.values())
    assert all(getattr(hookspecs, hook).__doc__ for hook in hooks)


@pytest.mark.parametrize(("kind", "hook"), HOOK_OF_KIND.items())
def test_every_hook_is_called_with_a_registrar_of_its_kind(site: Site, kind: str, hook: str):
    site.plugin(
        "caller", with_hook("registry.add('x', factory='a.b:C', config='a.c:D', requires=['p'])", hook=hook)
    )
    (component,) = load_one("caller").components
    assert (component.kind, component.qualified, component.requires) == (kind, "caller/x", ("p",))


def test_a_third_party_plugin_comes_in_through_the_same_door(thirdparty: Site):
    info = load_one("acme_cbr", strict=True)
    assert (info.distribution, info.version, info.status) == ("acme-cbr", "0.3.1", "ok")
    assert {component.qualified for component in info.components} == {"acme_cbr/sign", "acme_cbr/bag"}


def test_an_entry_point_may_name_an_object_instead_of_a_module(site: Site):
    source = """
from cbrcore import hookimpl

class Plugin:
    @hookimpl
    def register_agents(self, registry):
        registry.add("inside", factory="a:B", config="a:C")

plugin = Plugin()
"""
    site.module("objects", source)
    site.distribution("objects", "1.0", {"objects": "objects:plugin"})
    assert [component.name for component in load_one("objects").components] == ["inside"]


# Plugins that fail


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        ("import not_installed_anywhere", "failed", "ModuleNotFoundError: No module named 'not_"),
        ("from os import nothing_like_this", "failed", "ImportError"),
        ("import sys; sys.exit(1)", "failed", "SystemExit: 1"),
        ("raise RuntimeError('first line\\nsecond line')", "failed", "RuntimeError: first line ("),
        ("def broken(:", "failed", "SyntaxError"),
        (with_hook("raise ValueError('in the hook')"), "failed", "ValueError: in the hook"),
        (with_hook("registry.add('Upper', factory='a:B', config='a:C')"), "refused", "lower-case"),
        (with_hook("registry.add('x', factory='a.b.C', config='a:C')"), "refused", "package.module:name"),
        (with_hook("pass", hook="register_agnets"), "refused", "Did you mean 'register_agents'?"),
        (with_hook("pass", arguments="registry, settings"), "refused", "plugin interface 1"),
        ("cbr_api_version = 2" + GOOD, "refused", "plugin interface 2, this cbr has 1"),
        ("cbr_api_version = 'one'" + GOOD, "refused", "plugin interface 'one'"),
        ("", "empty", "provides nothing"),
        (GOOD.replace("@hookimpl", ""), "empty", "'register_agents' is not marked with cbrcore.hookimpl"),
        (GOOD.replace("from cbrcore import", "import pluggy\nfrom cbrcore import").replace(
            "@hookimpl", "@pluggy.HookimplMarker('other')"), "empty", "provides nothing"),
        (with_hook("pass"), "empty", "its hooks registered no component"),
    ],
)  # fmt: skip
def test_a_plugin_that_fails_is_reported_and_the_others_load(site: Site, source: str, status: str, said: str):
    site.plugin("faulty", source, distribution="faulty-dist", version="2.5")
    site.plugin("zz_good", GOOD)
    report = load_plugins(only=["faulty", "zz_good"])
    faulty, good = [info for info in report.plugins if info.status != "skipped"]
    assert (faulty.name, faulty.distribution, faulty.version, faulty.status) == (
        "faulty", "faulty-dist", "2.5", status,
    )  # fmt: skip
    assert said in faulty.cause
    assert "\n" not in faulty.cause
    assert faulty.components == ()
    assert faulty.milliseconds > 0
    assert good.status == "ok"
    assert report.registry.find("agent", "good").plugin == "zz_good"
    (problem,) = report.problems()
    assert problem == f"plugin 'faulty' (faulty-dist 2.5) {status}: {faulty.cause}"


def test_an_unknown_hook_argument_is_named(site: Site):
    site.plugin("asks", with_hook("pass", arguments="registry, settings"))
    assert "settings" in load_one("asks").cause


def test_a_hook_may_take_fewer_arguments(site: Site):
    site.plugin("modest", GOOD + "\n\n@hookimpl\ndef register_quantizers():\n    pass\n")
    assert load_one("modest").status == "ok"


def test_a_hook_of_a_later_interface_may_be_marked_optional(site: Site):
    site.plugin("newer", GOOD + "\n\n@hookimpl(optionalhook=True)\ndef register_dreams(registry):\n    pass\n")
    assert load_one("newer").status == "ok"


def test_the_right_interface_version_is_accepted(site: Site):
    site.plugin("fitting", "cbr_api_version = 1" + GOOD)
    assert load_one("fitting").status == "ok"


def test_the_cause_says_where_in_the_plugin_it_happened(site: Site):
    site.plugin("raising", "\n\n1 / 0\n")
    assert load_one("raising").cause.endswith(f"({site.folder / 'raising.py'}:3)")


def test_the_cause_is_in_the_file_that_raised_not_in_the_one_that_called(site: Site):
    (site.folder / "raising_helper.py").write_text("def divide():\n    return 1 / 0\n")
    site.plugin("calling", "import raising_helper\n\nraising_helper.divide()\n")
    assert load_one("calling").cause.endswith(f"({site.folder / 'raising_helper.py'}:2)")


def test_a_plugin_that_fails_halfway_leaves_nothing_behind(site: Site):
    half = with_hook("registry.add('half', factory='a:B', config='a:C')", hook="register_quantizers")
    site.plugin("halfway", half + with_hook("raise OSError('later')"))
    report = load_plugins(only=["halfway"])
    assert list(report.registry) == []
    with pytest.raises(CbrError, match=r"'halfway/half'. Its plugin could not be loaded: OSError: later"):
        report.registry.find("quantizer", "halfway/half")


def test_an_interrupt_is_not_taken_for_a_broken_plugin(site: Site):
    site.plugin("slow", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_plugins(only=["slow"])


@pytest.mark.parametrize(
    "source",
    [
        "print('hello from import')\n" + GOOD,
        with_hook("print('hello from hook')", hook="register_launchers") + GOOD,
    ],
)
def test_what_a_plugin_prints_does_not_reach_stdout(site: Site, source: str, capsys: pytest.CaptureFixture[str]):
    site.plugin("chatty", source)
    load_plugins(only=["chatty"])
    said = capsys.readouterr()
    assert said.out == ""
    assert "hello from" in said.err


def test_json_stays_pure_among_broken_and_chatty_plugins(site: Site):
    site.plugin("chatty", "print('{not json')\n" + GOOD)
    site.plugin("leaving", "import sys; print('bye'); sys.exit(1)")
    site.plugin("missing", "import not_installed_anywhere")
    answer = run_cbr("list-plugins", "--json")
    assert answer.returncode == 0, answer.stderr
    listed = {info["name"]: info for info in json.loads(answer.stdout)}
    assert [listed[name]["status"] for name in ("chatty", "leaving", "missing")] == ["ok", "failed", "failed"]
    assert listed["cbr_vq"]["status"] == "ok"


# Names


def test_one_entry_point_name_from_two_distributions_loads_neither(site: Site):
    site.module("first", GOOD)
    site.module("second", GOOD)
    site.distribution("dist-b", "2.0", {"twin": "second"})
    site.distribution("dist-a", "1.0", {"twin": "first"})
    report = load_plugins(only=["twin"])
    twins = [info for info in report.plugins if info.name == "twin"]
    assert [(info.distribution, info.status) for info in twins] == [("dist-a", "refused"), ("dist-b", "refused")]
    assert all("dist-a 1.0 and dist-b 2.0" in info.cause for info in twins)
    assert list(report.registry) == []
    assert not {"first", "second"} & set(sys.modules)


def test_the_same_object_under_two_names_is_loaded_once(site: Site):
    site.module("shared", GOOD)
    site.distribution("shared", "1.0", {"name_a": "shared", "name_b": "shared"})
    first, second = [i for i in load_plugins(only=["name_a", "name_b"]).plugins if i.name.startswith("name_")]
    assert (first.status, second.status) == ("ok", "skipped")
    assert "'name_a' of shared 1.0" in second.cause


def test_a_distribution_that_is_on_the_path_twice_is_loaded_once(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    site.plugin("doubled", GOOD, version="1.0")
    (tmp_path / "source").mkdir()
    Site(tmp_path / "source", monkeypatch).plugin("doubled", GOOD, version="2.0")
    assert (load_one("doubled").status, load_one("doubled").version) == ("ok", "2.0")


def test_the_same_component_name_from_two_plugins_is_kept_apart(site: Site):
    site.plugin("one", GOOD)
    site.plugin("two", GOOD)
    registry = load_plugins(only=["one", "two"]).registry
    assert {component.qualified for component in registry.of_kind("agent")} == {"one/good", "two/good"}
    assert registry.find("agent", "two/good").plugin == "two"
    with pytest.raises(CbrError, match="Write one of: one/good, two/good"):
        registry.find("agent", "good")


def test_the_order_of_installation_does_not_matter(site: Site):
    for name in ("beta", "alpha", "gamma"):
        site.plugin(name, GOOD, distribution=f"{'zya'[len(name) % 3]}-{name}")
    report = load_plugins(only=["gamma", "alpha", "beta"])
    assert [info.name for info in report.plugins if info.status == "ok"] == ["alpha", "beta", "gamma"]
    assert [component.plugin for component in report.registry] == ["alpha", "beta", "gamma"]


def test_a_name_that_would_break_plugin_slash_name_is_refused(site: Site):
    site.module("slashed", GOOD)
    site.distribution("slashed", "1.0", {"a/b": "slashed"})
    assert load_one("a/b").status == "refused"


def test_a_distribution_without_metadata_is_reported_as_unknown(site: Site):
    site.plugin("nameless", GOOD)
    (site.folder / "nameless-1.0.dist-info" / "METADATA").write_text("")
    info = load_one("nameless")
    assert (info.status, info.distribution, info.version) == ("ok", "unknown distribution", "unknown version")


# Choosing


def test_load_plugins_restricts(site: Site, monkeypatch: pytest.MonkeyPatch):
    site.plugin("extra", "raise SystemExit('must not be imported')")
    monkeypatch.setenv("CBR_LOAD_PLUGINS", " cbr_vq, cbr_retain,")
    report = load_plugins(strict=True)
    assert {info.name for info in report.plugins if info.status == "ok"} == {"cbr_vq", "cbr_retain"}
    (skipped,) = [info for info in report.plugins if info.name == "extra"]
    assert (skipped.status, skipped.distribution) == ("skipped", "extra")


def test_load_plugins_empty_loads_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "")
    report = load_plugins()
    assert list(report.registry) == []
    assert {info.status for info in report.plugins} == {"skipped"}
    assert len(report.plugins) == len(entry_points(group=GROUP))


def test_load_plugins_with_a_wrong_name_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_vq,cbr_retian")
    with pytest.raises(PluginError, match="Did you mean 'cbr_retain'"):
        load_plugins()


@pytest.mark.parametrize("source", ["import not_installed_anywhere", "cbr_api_version = 7", ""])
def test_strict_makes_every_problem_an_error(site: Site, monkeypatch: pytest.MonkeyPatch, source: str):
    site.plugin("bad_a", source)
    site.plugin("bad_b", source)
    monkeypatch.setenv("CBR_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match=r"(?s)bad_a.*bad_b.*CBR_STRICT_PLUGINS"):
        load_plugins()


@pytest.mark.parametrize("value", ["", "0"])
def test_strict_can_be_switched_off(site: Site, monkeypatch: pytest.MonkeyPatch, value: str):
    site.plugin("bad", "import not_installed_anywhere")
    monkeypatch.setenv("CBR_STRICT_PLUGINS", value)
    assert load_one("bad").status == "failed"


# Loose files

LOOSE = """
from cbrcore import NoSettings, hookimpl

@hookimpl
def register_agents(registry):
    registry.add("mine", factory="{name}:Agent", config="cbrcore:NoSettings")

class Agent:
    pass
"""


@pytest.fixture
def loose(tmp_path: Path, site: Site) -> Path:
    """A plugin file outside of every path."""
    path = tmp_path / "elsewhere" / "my_parts.py"
    path.parent.mkdir()
    path.write_text(LOOSE.format(name="my_parts"))
    return path


def test_a_loose_file_is_a_plugin_of_its_own_name(loose: Path):
    report = load_plugins(files=[loose])
    info = report.plugins[-1]
    assert (info.name, info.status, info.distribution) == ("my_parts", "ok", str(loose))
    assert info.version.startswith("sha256:")
    component = report.registry.find("agent", "my_parts/mine")
    assert component.load_factory() is sys.modules["my_parts"].Agent


def test_a_loose_file_given_twice_is_loaded_once(loose: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(loose.parent)
    report = load_plugins(files=[loose, "my_parts.py"])
    assert [info.status for info in report.plugins[-2:]] == ["ok", "skipped"]


def test_a_loose_file_is_loaded_whatever_is_chosen(loose: Path):
    assert [c.qualified for c in load_plugins(files=[loose], only=[]).registry] == ["my_parts/mine"]


def test_the_file_of_an_installed_plugin_is_ignored(site: Site):
    site.plugin("both", GOOD)
    report = load_plugins(files=[site.folder / "both.py"], only=["both"])
    assert [info.status for info in report.plugins if info.name == "both"] == ["ok", "skipped"]


def test_a_loose_file_may_not_take_the_name_of_a_plugin(site: Site, loose: Path):
    site.module("other_module", GOOD)
    site.distribution("owner", "3.0", {"my_parts": "other_module"})
    with pytest.raises(PluginError, match=r"taken by the plugin of owner 3\.0; rename the file"):
        load_plugins(files=[loose], only=["my_parts"])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("random.py", GOOD, "would hide the module 'random'"),
        ("has-dash.py", GOOD, "cannot be imported by name"),
        ("__init__.py", GOOD, "cannot be imported by name"),
        ("broken_one.py", "import not_installed_anywhere", "No module named 'not_installed_anywhere'"),
        ("empty_one.py", "", "provides nothing"),
        ("notes.txt", "", r"not a \.py file"),
    ],
)
def test_a_loose_file_that_does_not_load_is_an_error(loose: Path, name: str, content: str, said: str):
    path = loose.with_name(name)
    path.write_text(content)
    with pytest.raises(PluginError, match=said):
        load_plugins(files=[path])


def test_a_loose_file_that_fails_is_not_left_imported(loose: Path):
    loose.write_text("raise RuntimeError")
    with pytest.raises(PluginError):
        load_plugins(files=[loose])
    assert "my_parts" not in sys.modules


def test_a_missing_loose_file_is_an_error(tmp_path: Path):
    with pytest.raises(PluginError, match="no such file"):
        load_plugins(files=[tmp_path / "nowhere.py"])


def test_a_folder_is_no_loose_file(tmp_path: Path):
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(PluginError, match=r"not a \.py file"):
        load_plugins(files=[tmp_path / "folder.py"])


def test_a_plugin_that_keeps_every_command_waiting_is_named(site: Site):
    site.plugin("slow", "import time\ntime.sleep(1.2)\n")
    done = run_cbr("doctor", "--quick")
    told = [line for line in done.stderr.splitlines() if line.startswith("warning: plugin ")]
    assert len(told) == 1, done.stderr
    assert "plugin 'slow' (slow 1.0) takes " in told[0]
    assert "ms to import" in told[0]
