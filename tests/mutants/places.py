"""Where the code can be mutated, and what is left out of that.

The mutations are cosmic-ray's, and one more: a statement is dropped. A place counts once, however many
replacements there are for it (`+` by `-`, `*`, `/`, ...): one of them is drawn.

Left out, because a test of it would prove nothing:

* annotations (also the bounds of pydantic fields) and aliases of types at module level, decorators, docstrings;
* `__repr__`, `assert` (there for the type checker), bodies under `if TYPE_CHECKING`, classes that are Protocols;
* the log: statements and arguments; the arguments of `typer.Option` and `typer.Argument`;
* texts for people: the arguments `summary`, `hint`, `help`;
* an attribute that `__init__` does not set, a name or a field that is not there: whatever reads it fails;
* `==` by `is`, which is the same for interned values;
* mutations that leave the syntax tree as it was, or no program at all.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators import operator as base
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import PythonNode

Position = tuple[int, int]
TEXTS = {"summary", "hint", "help"}
LEFT_OUT = {
    *("RemoveDecorator", "VariableReplacer", "VariableInserter"),
    *("ReplaceComparisonOperator_Eq_Is", "ReplaceComparisonOperator_NotEq_IsNot"),
}


@dataclass(frozen=True)
class Place:
    """One place in the code and the replacements that there are for it: (name of the operator, its occurrence)."""

    path: str
    start: Position
    end: Position
    family: str
    variants: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Mutant:
    """One mutation.

    Attributes:
        function: the dotted name of the function or class around it, "" at module level.
        was, becomes: the changed lines, stripped.
        code: the whole module, mutated.
    """

    path: str
    line: int
    function: str
    operator: str
    occurrence: int
    start: Position
    end: Position
    was: str
    becomes: str
    code: str

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.path}\n{self.code}".encode()).hexdigest()[:32]


class DropStatement(base.Operator):
    """Replaces a call, `del`, `raise`, an augmented assignment, or one to an attribute or entry, by `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Position, Position]]:
        if node.type == "simple_stmt" and self._effect(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        passing = get_ast(f"{node.children[0].get_first_leaf().prefix}pass")
        node.children[0] = passing
        return node

    @staticmethod
    def _effect(node: Any) -> bool:
        if node.type in ("del_stmt", "raise_stmt"):
            return True
        if node.type != "expr_stmt":
            return isinstance(node, PythonNode) and node.type in ("atom_expr", "await")
        target, sign = node.children[:2]
        return sign.type == "augassign" or (sign.type == "operator" and target.type in ("power", "atom_expr"))

    @classmethod
    def examples(cls) -> tuple[base.Example, ...]:
        return (base.Example("x.clear()", "pass"), base.Example("x.y = 1", "pass"), base.Example("x += 1", "pass"))


@cache
def operators() -> Mapping[str, base.Operator]:
    """All that are used, by name."""
    provider = OperatorProvider()
    found = {name: provider[name]() for name in provider if name not in LEFT_OUT}
    return {**found, "DropStatement": DropStatement()}


def places(path: str, source: str) -> list[Place]:
    """All places of a module, in order."""
    tree = ast.parse(source)
    excluded, set_first = list(_excluded(tree)), set(_set_first(tree))
    found: dict[tuple[Position, Position, str], list[tuple[str, int]]] = {}
    nodes = _by_kind(get_ast(source))
    for name, operator in operators().items():
        for occurrence, (start, end, wanted) in enumerate(_positions(name, operator, nodes)):
            dropped = name == "DropStatement" and start in set_first
            if wanted and not dropped and not any(first <= start and end <= last for first, last in excluded):
                found.setdefault((start, end, _family(name)), []).append((name, occurrence))
    return [Place(path, *key, tuple(variants)) for key, variants in sorted(found.items())]


BINARY = {"arith_expr", "term", "expr", "and_expr", "xor_expr", "shift_expr", "power"}


def _by_kind(tree: Any) -> dict[str, list[Any]]:
    nodes = list(ast_nodes(tree))
    kinds = {kind: [node for node in nodes if node.type == kind] for kind in ("operator", "comparison")}
    return {**kinds, "": nodes}


def _positions(
    name: str, operator: base.Operator, nodes: Mapping[str, Iterable[Any]]
) -> Iterator[tuple[Position, Position, bool]]:
    """(start, end, whether it is an operation: `*` among parameters is none) of an operator's occurrences."""
    kind = "operator" if "Binary" in name else "comparison" if "Comparison" in name else ""
    for node in nodes[kind]:
        for start, end in operator.mutation_positions(node):
            yield start, end, kind != "operator" or node.parent.type in BINARY


def _family(name: str) -> str:
    return name.split("_")[0]


def drawn(place: Place, source: str, rng: random.Random) -> Mutant | None:
    """One of the place's mutants; None if none of them is another program."""
    plain = ast.dump(ast.parse(source))
    for name, occurrence in rng.sample(place.variants, len(place.variants)):
        code = mutate_code(source, operators()[name], occurrence)
        try:
            changed = code is not None and ast.dump(ast.parse(code)) != plain
        except SyntaxError:
            continue
        if changed:
            return _mutant(place, source, code, name, occurrence)
    return None


def _mutant(place: Place, source: str, code: str, name: str, occurrence: int) -> Mutant:
    lines = list(difflib.ndiff(source.splitlines(), code.splitlines()))
    was, becomes = (" ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")
    function = _around(ast.parse(source), place.start[0])
    return Mutant(
        place.path, place.start[0], function, name, occurrence, place.start, place.end, was, becomes, code
    )


def sample(root: Path, modules: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """So many mutants, each from another place; a larger sample of the same seed begins with the smaller one."""
    sources = {path: (root / path).read_text(encoding="utf-8") for path in sorted(modules)}
    everywhere = list(chain.from_iterable(places(path, source) for path, source in sources.items()))
    rng = random.Random(seed)
    rng.shuffle(everywhere)
    found: list[Mutant] = []
    for place in everywhere:
        if len(found) == count:
            break
        mutant = drawn(place, sources[place.path], random.Random(f"{seed} {place.path} {place.start}"))
        found += [mutant] if mutant else []
    return found


# -- what is left out ------------------------------------------------------------------------------------------


def _excluded(tree: ast.AST) -> Iterator[tuple[Position, Position]]:
    for node in ast.walk(tree):
        for part in _uninteresting(node):
            yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _uninteresting(node: ast.AST) -> Iterator[Any]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.decorator_list
            yield from [node.returns] if node.returns else []
            yield from [node] if node.name == "__repr__" else []
        case ast.ClassDef():
            yield from node.decorator_list
            yield from [node] if any("Protocol" in ast.unparse(parent) for parent in node.bases) else []
        case ast.arg() | ast.AnnAssign():
            yield from [node.annotation] if node.annotation else []
        case ast.Assert():
            yield node
        case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
            yield node
        case ast.Call() if ast.unparse(node.func).split(".")[0] in ("log", "typer"):
            yield node
        case ast.keyword() if node.arg in TEXTS:
            yield node
        case ast.Module():
            yield from (statement for statement in node.body if _alias(statement))


def _set_first(tree: ast.AST) -> Iterator[Position]:
    """Where `__init__` assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from ((s.lineno, s.col_offset) for s in node.body if isinstance(s, ast.Assign | ast.AnnAssign))


def _alias(statement: ast.stmt) -> bool:
    """`Name = X | None`, `Name = Callable[[A], B]` at module level."""
    plain = (
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.BinOp,
        ast.BitOr,
        ast.Constant,
        ast.List,
        ast.Tuple,
        ast.Load,
    )
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Subscript | ast.BinOp)
        and all(isinstance(node, plain) for node in ast.walk(statement.value))
        and any(isinstance(node, ast.Name) for node in ast.walk(statement.value))
        and not ast.unparse(statement.targets[0]).isupper()
    )


def _around(tree: ast.AST, line: int) -> str:
    """The dotted name of the innermost function or class around a line."""
    names: list[str] = []
    node: ast.AST | None = tree
    while node is not None:
        inner = (
            n for n in ast.iter_child_nodes(node) if getattr(n, "lineno", 0) <= line <= getattr(n, "end_lineno", 0)
        )
        node = next(inner, None)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    return ".".join(names)
