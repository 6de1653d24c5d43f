"""Names to import paths: how a recipe's ``use`` finds its component, and what is said when it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from plugin_fixtures import Site

from cbr_show.describing import named
from cbrcore.config import NoSettings
from cbrcore.errors import CbrError, PluginError
from cbrcore.plugins import load_plugins
from cbrcore.registry import KINDS, Component, Registrar, Registry


def offer(plugin: str, kind: str, *names: str, factory: str = "a.b:C", config: str = "cbrcore:NoSettings"):
    registrar = Registrar(kind, plugin)
    for name in names:
        registrar.add(name, factory=factory, config=config, summary=f"summary of {name}", requires=["torch"])
    return registrar.components


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.extend(offer("cbr_vq", "quantizer", "vq"))
    made.extend(offer("acme", "quantizer", "sign", "vq"))
    made.extend(offer("cbr_text", "agent", "text"))
    made.unavailable["broken"] = "ImportError: no module named x"
    return made


def test_components_are_listed_by_kind_plugin_and_name(registry: Registry):
    assert [c.qualified for c in registry] == ["acme/sign", "acme/vq", "cbr_vq/vq", "cbr_text/text"]
    assert [c.qualified for c in registry.of_kind("agent")] == ["cbr_text/text"]


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("agent", "text", "cbr_text/text"),
        ("agent", "cbr_text/text", "cbr_text/text"),
        ("quantizer", "acme/vq", "acme/vq"),
    ],
)
def test_a_component_is_found_by_its_qualified_or_its_unique_bare_name(
    registry: Registry, kind: str, name: str, found: str
):
    assert registry.find(kind, name).qualified == found


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("quantizer", "vq", "Write one of: acme/vq, cbr_vq/vq"),
        ("quantizer", "sgn", "Did you mean 'acme/sign'?"),
        ("quantizer", "cbr_vq/qv", "Did you mean 'cbr_vq/vq'?"),
        ("quantizer", "acmee/sign", "Did you mean 'acme/sign'?"),
        ("agent", "something else", "Choose one of: cbr_text/text."),
        ("agent", "acme/sign", "'acme/sign' belongs under 'quantizer', not under 'agent'"),
        ("agent", "cbr_text.agent:TextAgent", "looks like an import path"),
        ("agent", "cbr_text.agent.TextAgent", "looks like an import path"),
        ("agent", "broken/thing", "Its plugin could not be loaded: ImportError: no module named x"),
        ("launcher", "local", "There is none."),
    ],
)
def test_what_is_not_found_is_explained(registry: Registry, kind: str, name: str, said: str):
    with pytest.raises(CbrError) as caught:
        registry.find(kind, name)
    assert said in str(caught.value)
    assert name in str(caught.value)


def test_components_are_found_by_name_across_kinds(registry: Registry):
    registry.extend(offer("acme", "agent", "sign"))
    assert [c.kind for c in named("acme/sign", registry)] == ["quantizer", "agent"]
    assert [c.qualified for c in named("vq", registry)] == ["acme/vq", "cbr_vq/vq"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("acme", "is a plugin. Choose one of: acme/sign, acme/vq."),
        ("cbr_text/txt", "Did you mean 'cbr_text/text'?"),
        ("broken/x", "Its plugin could not be loaded"),
    ],
)
def test_an_unknown_name_across_kinds_is_explained(registry: Registry, name: str, said: str):
    with pytest.raises(CbrError) as caught:
        named(name, registry)
    assert said in str(caught.value)


# Offering


@pytest.mark.parametrize("name", ["", "Upper", "with space", "a/b", "a.b", "a:b"])
def test_a_malformed_component_name_is_refused(name: str):
    with pytest.raises(PluginError, match="lower-case"):
        offer("p", "agent", name)


@pytest.mark.parametrize("path", ["", "module", "module:", ":Class", "a:b:c", "a.b.C"])
@pytest.mark.parametrize("which", ["factory", "config"])
def test_a_malformed_import_path_is_refused(path: str, which: str):
    with pytest.raises(PluginError, match=which):
        offer("p", "agent", "x", **{which: path})


@pytest.mark.parametrize("wrong", [{"summary": None}, {"summary": 3}, {"requires": "torch"}, {"requires": [1]}])
def test_a_summary_and_requirements_of_another_type_are_refused(wrong):
    with pytest.raises(PluginError, match="summary of 'x' must be text, and requires a list of texts"):
        Registrar("agent", "p").add("x", factory="a:B", **wrong)


def test_a_name_offered_twice_by_one_plugin_is_refused():
    with pytest.raises(PluginError, match="registered twice"):
        offer("p", "agent", "x", "x")


def test_a_kind_that_nobody_can_bring_is_refused():
    with pytest.raises(PluginError, match=r"'x' brings the unknown kind 'learners'\. Did you mean 'learner'\?"):
        Registrar("agent", "p").add("x", factory="a:B", brings={"learners": "p/y"})


# Loading a component's code


def component(
    factory: str = "a:B", config: str = "cbrcore:NoSettings", requires: tuple[str, ...] = ()
) -> Component:
    return Component("agent", "p", "x", factory, config, requires=requires)


def test_config_and_factory_are_what_the_paths_name():
    found = component(factory="collections:OrderedDict")
    assert found.load_config() is NoSettings
    assert found.load_factory().__name__ == "OrderedDict"


def test_a_missing_requirement_is_reported_with_the_command_that_installs_it(site: Site):
    site.module("needy", "import library_x")
    with pytest.raises(PluginError, match="needs the module 'library_x'") as caught:
        component(factory="needy:A", requires=("library-x", "torch")).load_factory()
    assert caught.value.hint == "pip install library-x torch"


@pytest.mark.parametrize("module", ["cbr_nn", "cbr_keys", "cbr_border.gone", "cbr_vq.inner", "cbrcore.gone"])
def test_a_missing_module_of_ours_is_told_with_the_distribution_that_has_it(
    site: Site, module: str, monkeypatch: pytest.MonkeyPatch
):
    site.module("halved", f"import {module}")
    if "." not in module:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PluginError, match=f"needs the module '{module}'") as caught:
        component(factory="halved:A").load_factory()
    assert caught.value.hint == "pip install --force-reinstall cbr-textrl"


@pytest.mark.parametrize("module", ["cbr_gone", "cbr_gone.inner", "cbr_nnn", "cbrcore_extra", "cbr"])
def test_a_missing_module_that_is_called_as_ours_are_is_not_taken_for_ours(site: Site, module: str):
    site.module("needy", f"import {module}")
    with pytest.raises(PluginError) as caught:
        component(factory="needy:A").load_factory()
    assert caught.value.hint == f"pip install {module.partition('.')[0]}"


@pytest.mark.parametrize("error", ["TypeError('protobuf')", "OSError(5, 'io')", "SystemExit(0)"])
def test_a_requirement_that_cannot_be_imported_is_to_be_installed_anew(site: Site, error: str):
    site.module("library_x", f"raise {error}")
    site.module("needy", "import library_x")
    with pytest.raises(PluginError, match=f"cannot be imported: {error.partition('(')[0]}") as caught:
        component(factory="needy:A", requires=("library-x", "torch")).load_factory()
    assert caught.value.hint == "pip install --force-reinstall library-x torch"


@pytest.mark.parametrize("wrong", ["x = no_such_name", "x = 'no end", "import math; math.sqrt('2')"])
@pytest.mark.parametrize("module", ["own", "owns.part"])
def test_what_an_authors_own_module_raises_is_told_with_its_place(site: Site, module: str, wrong: str):
    name = module.replace(".", "/")
    (site.folder / "owns").mkdir()
    site.module(name, f'"""Fine so far."""\n{wrong}\n')
    with pytest.raises(PluginError, match=f"cannot be imported: .*{name}.py:2") as caught:
        component(factory=f"{module}:A", requires=("library-x",)).load_factory()
    assert caught.value.hint is None


def test_a_missing_requirement_that_is_not_declared_is_named(site: Site):
    site.module("needier", "import library_x")
    with pytest.raises(PluginError) as caught:
        component(factory="needier:A").load_factory()
    assert caught.value.hint == "pip install library_x"


@pytest.mark.parametrize("path", ["no_such_module:A", "no_such_package.module:A", "cbrcore.no_such_module:A"])
def test_a_path_into_nowhere_is_the_authors_mistake(path: str):
    with pytest.raises(PluginError, match="which does not exist") as caught:
        component(factory=path).load_factory()
    assert caught.value.hint is None


def test_a_missing_attribute_is_the_authors_mistake():
    with pytest.raises(PluginError, match=r"'cbrcore\.config:Nothing', which does not exist"):
        component(config="cbrcore.config:Nothing").load_config()


@pytest.mark.parametrize("source", ["1 / 0", "import sys; sys.exit(3)", "def (", "object().missing"])
def test_whatever_a_module_raises_becomes_a_plugin_error(site: Site, source: str):
    site.module("explosive", source)
    with pytest.raises(PluginError, match="'p/x' cannot be imported"):
        component(factory="explosive:A").load_factory()


def test_what_a_module_prints_does_not_reach_stdout(site: Site, capsys: pytest.CaptureFixture[str]):
    site.module("talking", "print('hello')\nA = 1")
    assert component(config="talking:A").load_config() == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "hello\n")


HEAVY = ("torch", "transformers", "textworld", "jericho", "spacy")


def test_the_settings_of_every_installed_component_load_without_heavy_imports():
    code = (
        "import sys\n"
        "from cbr_show.describing import describe\n"
        "from cbrcore.recipe.model import settings_class\n"
        "from cbrcore.plugins import load_plugins\n"
        "for component in load_plugins(strict=True).registry:\n"
        "    settings = describe(settings_class(component))\n"
        "    print(component.qualified, all(setting.description for setting in settings))\n"
        f"print(*(name for name in {HEAVY} if name in sys.modules))\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stderr
    *components, heavy = answer.stdout.splitlines()
    assert heavy == ""
    assert components == [f"{c.qualified} True" for c in load_plugins().registry]


def test_kinds_are_the_parts_of_a_recipe_and_launchers():
    from cbrcore.recipe.model import PARTS

    assert {*PARTS, "launcher"} < set(KINDS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken/x", "Its plugin could not be loaded: ImportError: no module named x"),
        ("broken", "Its plugin could not be loaded: ImportError: no module named x"),
        ("sing", "Did you mean 'acme/sign'?"),
        ("cbr_vq/vqq", "Did you mean 'cbr_vq/vq'?"),
        ("acme_sign", "Did you mean 'acme/sign'?"),
        ("zzzz", "Choose one of: acme/sign, acme/vq, cbr_vq/vq."),
    ],
)
def test_why_a_name_is_unknown(registry: Registry, name: str, said: str):
    assert registry.why_unknown(name, registry.of_kind("quantizer")) == said


def test_names_that_several_plugins_offer_clash(registry: Registry):
    registry.extend(offer("other", "agent", "vq"))
    clashes = registry.clashes("quantizer")
    assert {name: [c.plugin for c in found] for name, found in clashes.items()} == {"vq": ["acme", "cbr_vq"]}
    assert registry.clashes("agent") == {}


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("command", "run", "the command 'run' is the core's own (cbrcore); take another name"),
        ("command", "list-plugins", "the command 'list-plugins' is the core's own"),
        ("recipe_section", "run", "the recipe section 'run' is the core's own (cbrcore)"),
        ("recipe_section", "memory", "the recipe section 'memory' is the core's own"),
        ("command", "memory", None),
        ("recipe_section", "check", None),
        ("agent", "run", None),
    ],
)
def test_names_of_the_core_are_taken_in_their_own_kind(kind: str, name: str, said: str | None):
    if said is None:
        assert [c.name for c in offer("p", kind, name)] == [name]
    else:
        with pytest.raises(PluginError) as caught:
            offer("p", kind, name)
        assert caught.value.message.startswith(said)


def test_what_is_offered_is_kept_as_it_was_said():
    registrar = Registrar("agent", "p")
    registrar.add("a-b_2", factory="a.b:C")
    registrar.add("c", factory="d:E", config="f:G", summary="s", requires=["x", "y"], brings={"learner": "p/z"})
    assert registrar.components == [
        Component("agent", "p", "a-b_2", "a.b:C", "cbrcore.config:NoSettings", "", (), {}),
        Component("agent", "p", "c", "d:E", "f:G", "s", ("x", "y"), {"learner": "p/z"}),
    ]
    assert [c.qualified for c in registrar.components] == ["p/a-b_2", "p/c"]


def test_of_several_kinds_the_first_is_told_where_a_name_belongs(registry: Registry):
    registry.extend([*offer("acme", "command", "odd"), *offer("acme", "environment", "odd")])
    kinds = sorted(("command", "environment"), key=KINDS.index)
    with pytest.raises(CbrError, match=f"'acme/odd' belongs under '{kinds[0]}', not under 'agent'"):
        registry.find("agent", "odd")
