"""Names -> import paths. Knows neither pluggy nor YAML, and imports a component only when asked to.

A *kind* is a recipe key ("environment", "quantizer", ...). A component's qualified name is
``plugin/name``; the bare name works as long as one plugin alone offers it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from cbrcore.errors import CbrError, PluginError, closest, suggest

HOOK_OF_KIND = {
    "environment": "register_environments",
    "text_encoder": "register_text_encoders",
    "context_encoder": "register_context_encoders",
    "quantizer": "register_quantizers",
    "retain_policy": "register_retain_policies",
    "agent": "register_agents",
    "launcher": "register_launchers",
}
KINDS = tuple(HOOK_OF_KIND)


@dataclass(frozen=True)
class Component:
    """One offered part: where it comes from and where its code is."""

    kind: str
    plugin: str
    name: str
    factory: str
    config: str
    summary: str = ""
    requires: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        return f"{self.plugin}/{self.name}"

    def load_config(self) -> Any:
        """The settings class; never imports torch (a test sees to it)."""
        return _load(self.config, self)

    def load_factory(self) -> Any:
        """The callable that builds the part as ``factory(config, build)``."""
        return _load(self.factory, self)


def _load(path: str, component: Component) -> Any:
    module_name, _, attribute = path.partition(":")
    module = _import(module_name, component)
    try:
        return getattr(module, attribute)
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
        if missing == module or module.startswith(f"{missing}."):
            raise PluginError(f"{part} points to the module {module!r}, which does not exist") from error
        raise PluginError(
            f"{part} needs the module {missing!r}: {error}",
            hint=f"pip install {' '.join(component.requires) or missing}",
        ) from error
    except (Exception, SystemExit) as error:
        raise PluginError(f"{part} cannot be imported: {type(error).__name__}: {error}") from error


class Registry:
    """All components of all loaded plugins, by kind and name."""

    def __init__(self) -> None:
        self._components: list[Component] = []
        self.unavailable: dict[str, str] = {}
        """Plugins that could not be loaded, and why; a recipe that names one is told."""

    def __iter__(self) -> Iterator[Component]:
        return iter(sorted(self._components, key=lambda c: (KINDS.index(c.kind), c.plugin, c.name)))

    def __repr__(self) -> str:
        return f"Registry({len(self._components)} components)"

    def extend(self, components: Sequence[Component]) -> None:
        """Add what one plugin offers."""
        self._components.extend(components)

    def of_kind(self, kind: str) -> list[Component]:
        return [component for component in self if component.kind == kind]

    def named(self, name: str) -> list[Component]:
        """All components of this name (qualified, or bare), of every kind.

        Raises:
            CbrError: there is none; says what was probably meant.
        """
        found = [component for component in self if name in (component.qualified, component.name)]
        if found:
            return found
        offered = [component.qualified for component in self if component.plugin == name]
        if offered:
            raise CbrError(f"{name!r} is a plugin. Choose one of: {', '.join(offered)}.")
        raise CbrError(f"unknown component {name!r}. {self._why_unknown(name, list(self))}")

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
        raise CbrError(f"unknown {kind} {name!r}. {self._why_unknown(name, offered)}")

    def _why_unknown(self, name: str, offered: Sequence[Component]) -> str:
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
        self, name: str, *, factory: str, config: str, summary: str = "", requires: Sequence[str] = ()
    ) -> None:
        """Offer a component.

        Args:
            name: short name, lower case, e.g. "vq".
            factory: "package.module:callable", called as ``callable(config, build)``.
            config: "package.module:Class", a `cbrcore.config.ComponentConfig`; must not import torch.
            summary: one line for ``cbr list-plugins``.
            requires: distributions to install if the factory's module cannot be imported.

        Raises:
            PluginError: the name or a path is malformed, or this plugin offered the name already.
        """
        if not name or not name.replace("_", "").replace("-", "").isalnum() or name != name.lower():
            raise PluginError(f"component name {name!r} must be lower-case letters, digits, '_' or '-'")
        for label, path in (("factory", factory), ("config", config)):
            if path.count(":") != 1 or not all(path.split(":")):
                raise PluginError(f"{label} of {name!r} must be 'package.module:name', got {path!r}")
        if any(component.name == name for component in self.components):
            raise PluginError(f"{self.kind} {name!r} is registered twice by the same plugin")
        self.components.append(Component(self.kind, self.plugin, name, factory, config, summary, tuple(requires)))
