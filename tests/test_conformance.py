"""Every part that ships passes the conformance suite of its kind, the same that plugin authors subclass."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from pathlib import Path

import pytest

from cbrcore import testing
from cbrcore.plugins import load_plugins
from cbrcore.registry import KINDS

SUITES = {kind: f"{''.join(word.title() for word in kind.split('_'))}Suite" for kind in KINDS}
"""Kind -> the name of its suite, as in retain_policy: RetainPolicySuite."""
BY_ITSELF = ("command", "check")
"""Kinds whose suites need nothing but the factory: they are gone through here."""
NAME = operator.attrgetter("qualified")
HERE = Path(__file__).parent
TREES = [ast.parse(path.read_text()) for path in sorted(HERE.glob("plugins/*.py"))]
SHIPPED = {folder.name for folder in (HERE.parent / "plugins").iterdir()}
COMPONENTS = [component for component in load_plugins().registry if component.plugin in SHIPPED]


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def bases(node: ast.ClassDef) -> set[str]:
    """The names of all its bases, through the classes of the other files too."""
    direct = {base.id for base in node.bases if isinstance(base, ast.Name)}
    classes = [each for tree in TREES for each in tree.body if isinstance(each, ast.ClassDef)]
    return direct.union(*(bases(each) for each in classes if each.name in direct and each is not node))


def classes_of(suite: str) -> Iterator[set[str]]:
    """Of each test class of the suite: the names that it uses, itself or in the functions that it calls."""
    for tree in TREES:
        functions = {each.name: names(each) for each in tree.body if isinstance(each, ast.FunctionDef)}
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test") and suite in bases(node):
                yield names(node).union(*(functions.get(name, set()) for name in names(node)))


def test_there_is_a_suite_for_every_kind():
    assert [name for name in SUITES.values() if not hasattr(testing, name)] == []


@pytest.mark.parametrize("component", [c for c in COMPONENTS if c.kind not in BY_ITSELF], ids=NAME)
def test_a_component_is_put_through_the_suite_of_its_kind(component):
    made, suite = component.factory.partition(":")[2], SUITES[component.kind]
    assert any(made in used for used in classes_of(suite)), (
        f"no class in tests/plugins subclasses {suite} and makes {made}"
    )


@pytest.mark.parametrize("component", [c for c in COMPONENTS if c.kind == "command"], ids=NAME)
def test_a_command_keeps_the_contract_of_its_kind(component):
    """But for its work, which the tests of its plugin see to."""
    suite = type("Shipped", (testing.CommandSuite,), {"factory": component.factory})()
    suite.test_it_helps()
    suite.test_loading_it_imports_nothing_heavy()


@pytest.mark.parametrize("component", [c for c in COMPONENTS if c.kind == "check"], ids=NAME)
def test_a_check_keeps_the_contract_of_its_kind(component):
    """But for what takes long."""
    check = component.load_factory()
    suite = type("Shipped", (testing.CheckSuite,), {"check": lambda self: check})()
    suite.test_its_texts_are_single_lines_that_can_be_printed()
    suite.test_what_is_not_well_says_how_to_mend_it_and_nothing_else_does()
