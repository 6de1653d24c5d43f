"""Names -> import paths. Knows neither pluggy nor YAML, and imports a component only when asked to.

A *kind* is what a hook offers ("environment", "command", ...). A component's qualified name is ``plugin/name``;
the bare name works as long as one plugin alone offers it.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

from cbrcore import hookspecs
from cbrcore.errors import CbrError, PluginError, closest, suggest


def _singular(hook: str) -> str:
    """ "retain_policy" for "register_retain_policies"."""
    return re.sub(r"ies$", "y", hook.removeprefix("register_")).removesuffix("s")


HOOK_OF_KIND = {_singular(hook): hook for hook in vars(hookspecs) if hook.startswith("register_")}
"""Every kind that can be offered, in the order of the hook specs; adding a hook spec adds a kind."""
KINDS = tuple(HOOK_OF_KIND)
CORE_COMMANDS = {
    "run": "Train and evaluate what a recipe describes, and print the table of results.",
    "evaluate": "Measure a run's latest checkpoint again, with weights and memory frozen.",
    "check": "Check a recipe completely, without building anything.",
    "list-plugins": "List the plugins: what they offer, where they come from, and what is wrong with them.",
}
"""What the core does itself; plugins may not take these names."""
CORE_KEYS = (
    "schema", "name", "seed", "directory", "environment", "text_encoder", "context_encoder", "quantizer", "memory",
    "reuse_policy", "retain_policy", "agent", "learner", "recorders", "training", "evaluation", "run",
)  # fmt: skip
"""The recipe's keys, in the order in which a recipe is written; plugins may not take these names."""
GLOBAL_NAMES = ("command", "recipe_section")
"""Kinds whose names stand alone (``cbr NAME``, a recipe's key): nobody can choose between two of them."""
NO_SETTINGS = "cbrcore.config:NoSettings"


@dataclass(frozen=True)
class Component:
    """One offered thing: where it comes from and where its code is; see `Registrar.add`."""

    kind: str
    plugin: str
    name: str
    factory: str
    config: str = NO_SETTINGS
    summary: str = ""
    requires: tuple[str, ...] = ()
    brings: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def qualified(self) -> str:
        return f"{self.plugin}/{self.name}"

    def load_config(self) -> Any:
        """The settings class; never imports torch (a test sees to it)."""
        return _load(self.config, self)

    def load_factory(self) -> Any:
        """What the factory's path names; of a recipe's part it is called as ``factory(config, build)``."""
        return _load(self.factory, self)


def _load(path: str, component: Component) -> Any:
    module_name, _, attribute = path.partition(":")
    module = _import(module_name, component)
    try:
        return getattr(module, attribute) if attribute else module
    except AttributeError as error:
        raise PluginError(f"{component.qualified!r} points to {path!r}, which does not exist") from error


def _import(module: str, component: Component) -> ModuleType:
    """Import an author's module: whatever it raises becomes a `PluginError`, whatever it prints goes to stderr."""
    part = f"{component.kind} {component.qualified!r}"
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(module)
    except ImportError as error:
        missing = error.name or module
        hint = "pip install --force-reinstall cbr-textrl" if _ships(missing) else None
        if missing == module or module.startswith(f"{missing}."):
            said = f"{part} points to the module {module!r}, which does not exist"
            raise PluginError(said, hint=hint if missing != module else None) from error
        hint = hint or f"pip install {' '.join(component.requires) or missing}"
        raise PluginError(f"{part} needs the module {missing!r}: {error}", hint=hint) from error
    except (Exception, SystemExit) as error:
        file, where = place(error)
        requires = () if module.partition(".")[0] in Path(file).with_suffix("").parts else component.requires
        again = f"pip install --force-reinstall {' '.join(requires)}" if requires else None
        raise PluginError(
            f"{part} cannot be imported: {type(error).__name__}: {error}{where}", hint=again
        ) from error


def place(error: BaseException) -> tuple[str, str]:
    """The file of an author's code, or of a library's, that raised it, and " (file:line)"; both may be empty."""
    file, line = "", None
    for frame, number in traceback.walk_tb(error.__traceback__):
        name, top = frame.f_code.co_filename, str(frame.f_globals.get("__name__")).partition(".")[0]
        if top not in ("cbrcore", "pluggy", "importlib") and not name.startswith("<"):
            file, line = name, number
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    return file, f" ({file}:{line})" if file else ""


def _ships(module: str) -> bool:
    """Whether the module came with this package."""
    top, packages = module.partition(".")[0], ["cbrcore"]
    with contextlib.suppress(PackageNotFoundError):
        packages += (distribution("cbr-textrl").read_text("top_level.txt") or "").split()
    return top in packages


class Registry:
    """All components of all loaded plugins, by kind and name."""

    def __init__(self) -> None:
        self._components: list[Component] = []
        self.unavailable: dict[str, str] = {}
        """Plugins that could not be loaded, and why; a recipe that names one is told."""

    def __iter__(self) -> Iterator[Component]:
        return iter(sorted(self._components, key=lambda c: (KINDS.index(c.kind), c.plugin, c.name)))

    def extend(self, components: Sequence[Component]) -> None:
        """Add what one plugin offers."""
        self._components.extend(components)

    def of_kind(self, kind: str) -> list[Component]:
        return [component for component in self if component.kind == kind]

    def clashes(self, kind: str) -> dict[str, list[Component]]:
        """Names of this kind that several plugins offer."""
        by_name: dict[str, list[Component]] = {}
        for component in self.of_kind(kind):
            by_name.setdefault(component.name, []).append(component)
        return {name: same for name, same in by_name.items() if len(same) > 1}

    def find(self, kind: str, name: str) -> Component:
        """The component that a recipe's ``use: name`` means.

        Raises:
            CbrError: no such component (with a suggestion), or the bare name is offered by several plugins.
        """
        offered = self.of_kind(kind)
        found = [c for c in offered if name in (c.qualified, c.name)]
        if len(found) == 1:
            return found[0]
        if found:
            choices = ", ".join(c.qualified for c in found)
            raise CbrError(f"{kind} {name!r} is offered by several plugins. Write one of: {choices}")
        if ":" in name or ("." in name and "/" not in name):
            raise CbrError(f"{name!r} looks like an import path; `use` takes registered names only")
        elsewhere = [component for component in self if name in (component.qualified, component.name)]
        if elsewhere:
            there = elsewhere[0]
            raise CbrError(f"{there.qualified!r} belongs under {there.kind!r}, not under {kind!r}")
        raise CbrError(f"unknown {kind} {name!r}. {self.why_unknown(name, offered)}")

    def why_unknown(self, name: str, offered: Sequence[Component]) -> str:
        """The cause if the plugin could not be loaded, else the qualified name that was probably meant."""
        plugin = name.partition("/")[0]
        if plugin in self.unavailable:
            return f"Its plugin could not be loaded: {self.unavailable[plugin]}"
        qualified = {component.qualified: component.qualified for component in offered}
        bare = {component.name: component.qualified for component in offered}
        names = qualified if "/" in name else bare
        best = closest(name, names) or closest(name, qualified)
        return f"Did you mean {(names | qualified)[best]!r}?" if best else suggest(name, qualified)


class Registrar:
    """What a hook receives: it files one plugin's components of one kind under the plugin's name."""

    def __init__(self, kind: str, plugin: str) -> None:
        self.kind = kind
        self.plugin = plugin
        self.components: list[Component] = []

    def add(
        self,
        name: str,
        *,
        factory: str,
        config: str = NO_SETTINGS,
        summary: str = "",
        requires: Sequence[str] = (),
        brings: Mapping[str, str] | None = None,
    ) -> None:
        """Offer a component.

        Args:
            name: short name, lower case, e.g. "vq".
            factory: "package.module:object"; what it must be says the hook (`cbrcore.hookspecs`).
            config: "package.module:Class", a `cbrcore.config.ComponentConfig`; must not import torch.
            summary: one line for ``cbr list-plugins``, and for ``cbr --help`` of a command.
            requires: distributions to install if the factory's module cannot be imported.
            brings: parts that a recipe with this one has too unless it names others: kind -> "plugin/name". Where
                several parts bring one of a kind, the first part of the recipe counts.

        Raises:
            PluginError: the name or a path is malformed or taken, or `brings` names no kind.
        """
        if not name or not name.replace("_", "").replace("-", "").isalnum() or name != name.lower():
            raise PluginError(f"component name {name!r} must be lower-case letters, digits, '_' or '-'")
        for label, path in (("factory", factory), ("config", config)):
            if path.count(":") != 1 or not all(path.split(":")):
                raise PluginError(f"{label} of {name!r} must be 'package.module:name', got {path!r}")
        if isinstance(requires, str) or not all(isinstance(text, str) for text in (summary, *requires)):
            raise PluginError(f"summary of {name!r} must be text, and requires a list of texts")
        if name in {"command": CORE_COMMANDS, "recipe_section": CORE_KEYS}.get(self.kind, ()):
            what = self.kind.replace("_", " ")
            raise PluginError(f"the {what} {name!r} is the core's own (cbrcore); take another name")
        if wrong := [kind for kind in brings or {} if kind not in KINDS]:
            raise PluginError(f"{name!r} brings the unknown kind {wrong[0]!r}. {suggest(wrong[0], KINDS)}")
        if any(component.name == name for component in self.components):
            raise PluginError(f"{self.kind} {name!r} is registered twice by the same plugin")
        made = Component(
            self.kind, self.plugin, name, factory, config, summary, tuple(requires), dict(brings or {})
        )
        self.components.append(made)
