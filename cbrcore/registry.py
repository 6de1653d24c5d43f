"""Names -> import paths. Knows neither pluggy nor YAML, and imports a component only when asked to.

A *kind* is a recipe key ("environment", "quantizer", ...). A component's qualified name is
``plugin/name``; the bare name works as long as one plugin alone offers it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cbrcore.errors import CbrError, PluginError, suggest

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
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        missing = getattr(error, "name", None) or module_name
        raise PluginError(
            f"{component.kind} {component.qualified!r} needs the module {missing!r}: {error}",
            hint=f"pip install {' '.join(component.requires) or missing}",
        ) from error
    except AttributeError as error:
        raise PluginError(f"{component.qualified!r} points to {path!r}, which does not exist") from error


class Registry:
    """All components of all loaded plugins, by kind and name."""

    def __init__(self) -> None:
        self._components: list[Component] = []

    def __iter__(self) -> Iterator[Component]:
        return iter(sorted(self._components, key=lambda c: (KINDS.index(c.kind), c.plugin, c.name)))

    def __repr__(self) -> str:
        return f"Registry({len(self._components)} components)"

    def extend(self, components: Sequence[Component]) -> None:
        """Add what one plugin offers."""
        self._components.extend(components)

    def of_kind(self, kind: str) -> list[Component]:
        return [component for component in self if component.kind == kind]

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
        if ":" in name or (name.count(".") and "/" not in name):
            raise CbrError(f"{name!r} looks like an import path; `use` takes registered names only")
        raise CbrError(f"unknown {kind} {name!r}. {self._suggest(kind, name)}")

    def _suggest(self, kind: str, name: str) -> str:
        elsewhere = [c for c in self if name in (c.qualified, c.name)]
        if elsewhere:
            return f"{elsewhere[0].qualified!r} is a {elsewhere[0].kind}, not a {kind}."
        offered = self.of_kind(kind)
        if "/" in name:
            return suggest(name, [c.qualified for c in offered])
        best = {c.name: c.qualified for c in offered}
        said = suggest(name, best)
        for bare, qualified in best.items():
            said = said.replace(f"'{bare}'", f"'{qualified}'")
        return said


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
