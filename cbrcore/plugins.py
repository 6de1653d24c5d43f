"""Find, load, refuse, report: the only file that touches pluggy.

Plugins are entry points of the group ``cbrcore.plugins``, loaded one by one in the order of their names.
One that fails leaves nothing behind, is reported with its distribution, version and cause, and the rest load.

Environment variables: ``CBR_LOAD_PLUGINS=a,b`` loads only these (empty: none); ``CBR_STRICT_PLUGINS=1``
makes every problem an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, entry_points
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Literal

import pluggy

from cbrcore import hookspecs
from cbrcore.errors import PluginError, suggest
from cbrcore.hookspecs import API_VERSION, PROJECT
from cbrcore.registry import GLOBAL_NAMES, HOOK_OF_KIND, KINDS, Component, Registrar, Registry, place

GROUP = "cbrcore.plugins"
NO_NAME, NO_VERSION = "unknown distribution", "unknown version"
KIND_OF_HOOK = {hook: kind for kind, hook in HOOK_OF_KIND.items()}

SLOW_MS = 1000
"""A plugin that takes longer to import is named."""
log = logging.getLogger(__name__)

Status = Literal["ok", "failed", "refused", "empty", "skipped"]
"""ok: loaded. failed: raised while loading. refused: breaks a rule. empty: provides nothing.
skipped: not asked for, or the same object as another plugin."""


@dataclass(frozen=True)
class PluginInfo:
    """What became of one plugin."""

    name: str
    distribution: str
    version: str
    status: Status = "ok"
    cause: str = ""
    milliseconds: float = 0.0
    components: tuple[Component, ...] = ()

    def __str__(self) -> str:
        return f"{self.origin} {self.status}: {self.cause}"

    @property
    def origin(self) -> str:
        """Whose it is, in words."""
        return f"plugin {self.name!r} ({self.distribution} {self.version})"


@dataclass(frozen=True)
class PluginReport:
    """All components that were offered, and what became of every plugin."""

    registry: Registry
    plugins: tuple[PluginInfo, ...]

    def problems(self) -> list[str]:
        """One line for each plugin that was found but gives nothing, against its author's will, and for each name
        that several of them claim."""
        return [*(str(info) for info in self.plugins if info.status not in ("ok", "skipped")), *self._clashes()]

    def origin(self, component: Component) -> str:
        """Who offers it, in words: plugin, distribution and version."""
        return next(info.origin for info in self.plugins if component in info.components)

    def _clashes(self) -> list[str]:
        return [
            f"{kind.replace('_', ' ')} {name!r} is offered by {' and '.join(map(self.origin, same))}: none is used"
            for kind in GLOBAL_NAMES
            for name, same in self.registry.clashes(kind).items()
        ]


Found = tuple[PluginInfo, Callable[[], object]]
"""(a plugin that was found but not imported yet, what imports it)"""


def load_plugins(
    *, files: Iterable[Path | str] = (), only: Collection[str] | None = None, strict: bool | None = None
) -> PluginReport:
    """Load every installed plugin, then the loose `files` in the order given.

    Args:
        files: Python files that hold hooks (``--plugin FILE.py``). A file that you name must load.
        only: entry points to load; None: what CBR_LOAD_PLUGINS says, or all.
        strict: whether any problem is an error; None: what CBR_STRICT_PLUGINS says.

    Raises:
        PluginError: a file cannot be loaded, `only` names none that is installed, or (strict) one is not loaded.
    """
    loader = _Loader()
    found = sorted(_installed(), key=lambda each: (each[0].name, each[0].origin))
    wanted = _wanted(only, {info.name for info, _ in found})
    for name, same_name in groupby(found, key=lambda each: each[0].name):
        loader.offer(list(same_name), wanted=name in wanted)
    for file in files:
        loader.load_file(Path(file))
    report = PluginReport(loader.registry, tuple(loader.infos))
    strict = os.environ.get("CBR_STRICT_PLUGINS", "") not in ("", "0") if strict is None else strict
    if strict and report.problems():
        said = "\n".join(report.problems())
        raise PluginError(said, hint="CBR_STRICT_PLUGINS=1 made this an error; unset it to go on")
    return report


class _Loader:
    """The plugins loaded so far, in one pluggy manager; a plugin that fails is unregistered again."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self.registry = Registry()
        self.infos: list[PluginInfo] = []
        self._loaded: list[tuple[PluginInfo, object]] = []

    def offer(self, found: Sequence[Found], *, wanted: bool) -> None:
        """Load the plugin of one entry-point name; neither, if several distributions claim the name."""
        infos = [info for info, _ in found]
        if not wanted:
            self.infos += [replace(info, status="skipped", cause="not in CBR_LOAD_PLUGINS") for info in infos]
        elif len(infos) > 1:
            origins = " and ".join(f"{info.distribution} {info.version}" for info in infos)
            cause = f"the entry point {infos[0].name!r} is claimed by {origins}; uninstall one of them"
            for info in infos:
                self._record(replace(info, status="refused", cause=cause))
        else:
            self._record(self._load(*found[0]))

    def load_file(self, path: Path) -> None:
        """Load a loose file.

        Raises:
            PluginError: it is not a Python file, its name is taken, or it does not load.
        """
        if not path.is_file() or path.suffix != ".py":
            raise PluginError(f"--plugin {path}: {'not a .py file' if path.exists() else 'no such file'}")
        path = path.resolve()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        info = self._load(PluginInfo(path.stem, str(path), f"sha256:{digest[:12]}"), lambda: import_file(path))
        if info.status not in ("ok", "skipped"):
            raise PluginError(str(info))
        self._record(info)

    def _record(self, info: PluginInfo) -> None:
        self.infos.append(info)
        self.registry.extend(info.components)
        if info.status in ("failed", "refused", "empty"):
            self.registry.unavailable[info.name] = info.cause

    def _load(self, info: PluginInfo, load: Callable[[], object]) -> PluginInfo:
        start = time.perf_counter()
        try:
            with contextlib.redirect_stdout(sys.stderr):  # stdout is for results, whatever a plugin prints
                info = self._collect(info, load)
        except PluginError as error:
            info = replace(info, status="refused", cause=str(error))
        except (Exception, SystemExit) as error:
            said = (str(error).splitlines() or [""])[0]
            info = replace(info, status="failed", cause=f"{type(error).__name__}: {said}{place(error)[1]}")
        took = (time.perf_counter() - start) * 1000
        if took > SLOW_MS:
            told = "%s takes %.0f ms to import, and every command waits for it; CBR_LOAD_PLUGINS can leave it out"
            log.warning(told, info.origin, took)
        return replace(info, milliseconds=took)

    def _collect(self, info: PluginInfo, load: Callable[[], object]) -> PluginInfo:
        """Import the plugin and call its hooks; PluginError if it breaks a rule."""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", info.name):
            raise PluginError("its name may hold letters, digits, '_', '-' and '.' only, as in 'name/component'")
        plugin = load()
        for other, loaded in self._loaded:
            whose = f"{other.distribution} {other.version}"
            if loaded is plugin:
                return replace(
                    info, status="skipped", cause=f"the same object as the plugin {other.name!r} of {whose}"
                )
            if other.name == info.name:
                raise PluginError(f"the name is taken by the plugin of {whose}; rename the file")
        try:
            callers = self._register(plugin, info.name)
            components = [found for caller in callers for found in _call_hook(caller, plugin, info.name)]
        except BaseException:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            raise
        self._loaded.append((info, plugin))
        if not components:
            return replace(info, status="empty", cause=_why_empty(plugin, callers))
        return replace(info, components=tuple(sorted(components, key=lambda each: KINDS.index(each.kind))))

    def _register(self, plugin: object, name: str) -> list[pluggy.HookCaller]:
        """Register the plugin; the hooks that it implements."""
        stated = getattr(plugin, "cbr_api_version", API_VERSION)
        if stated != API_VERSION:
            raise PluginError(
                f"it is written for plugin interface {stated!r}, this cbr has {API_VERSION}; "
                "install the version of either that fits the other"
            )
        try:
            self._manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            said = "; ".join(str(error).splitlines()[1:])
            raise PluginError(f"it does not fit plugin interface {API_VERSION}: {said}") from error
        callers = self._manager.get_hookcallers(plugin) or []
        for caller in callers:
            own = (impl for impl in caller.get_hookimpls() if impl.plugin is plugin)
            if not caller.has_spec() and any(not impl.optionalhook for impl in own):
                raise PluginError(f"unknown hook {caller.name!r}. {suggest(caller.name, HOOK_OF_KIND.values())}")
        return [caller for caller in callers if caller.has_spec()]


def _wanted(only: Collection[str] | None, installed: set[str]) -> Collection[str]:
    listed = os.environ.get("CBR_LOAD_PLUGINS")
    if only is None:
        if listed is None:
            return installed
        only = [name.strip() for name in listed.split(",") if name.strip()]
    for name in only:
        if name not in installed:
            raise PluginError(f"CBR_LOAD_PLUGINS: no plugin {name!r} is installed. {suggest(name, installed)}")
    return only


def _installed() -> Iterator[Found]:
    """All entry points of the group; the metadata of each distribution, which take longest, are parsed once."""
    origins: dict[Distribution | None, tuple[str, str]] = {None: (NO_NAME, NO_VERSION)}
    for point in entry_points(group=GROUP):
        if point.dist is not None and point.dist not in origins:
            origins[point.dist] = origins[None]
            with contextlib.suppress(FileNotFoundError):  # what a backport of importlib.metadata raises
                said = point.dist.metadata
                origins[point.dist] = said["Name"] or NO_NAME, said["Version"] or NO_VERSION
        yield PluginInfo(point.name, *origins[point.dist]), point.load


def _call_hook(caller: pluggy.HookCaller, plugin: object, name: str) -> list[Component]:
    """What this plugin alone offers through the hook: each plugin has a registrar of its own."""
    registrar = Registrar(KIND_OF_HOOK[caller.name], name)
    for impl in caller.get_hookimpls():
        if impl.plugin is plugin:
            impl.function(*[registrar for _ in impl.argnames])
    return registrar.components


def _why_empty(plugin: object, callers: Sequence[pluggy.HookCaller]) -> str:
    unmarked = next((f"{hook!r} is not" for hook in HOOK_OF_KIND.values() if hasattr(plugin, hook)), "nothing is")
    why = "its hooks registered no component" if callers else f"{unmarked} marked with cbrcore.hookimpl"
    return f"provides nothing: {why}"


# -- loose files -------------------------------------------------------------------------------------------------


def import_file(path: Path) -> ModuleType:
    """Import the file as the module of its own name, so that "name:Class" finds what is in it.

    Raises:
        PluginError: the name is no module name, or would hide another module.
    """
    name = path.stem
    if not name.isidentifier() or name == "__init__":
        raise PluginError(f"{path.name!r} cannot be imported by name; use letters, digits and '_'")
    spec = importlib.util.find_spec(name)
    if spec is not None:
        if spec.origin is not None and Path(spec.origin).resolve() == path:
            return importlib.import_module(name)
        raise PluginError(f"{path.name!r} would hide the module {name!r} ({spec.origin}); rename the file")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends with .py
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
