"""The rules of a recipe: which keys there are, which parts come by default, and what belongs together."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from cbrcore.config import (
    ComponentConfig,
    MemoryConfig,
    Part,
    Recipe,
    ReuseConfig,
    Settings,
    existing_path,
    expand_path,
    nested_parts,
)
from cbrcore.errors import CbrError, PluginError, closest
from cbrcore.interfaces import ChecksRecipe, Fault, Keys
from cbrcore.recipe.text import Document, Place, dotted, value_at
from cbrcore.recipe.words import Model, Schema, bounds, check, one_line, refused, settings_of, unknown, validated
from cbrcore.registry import CORE_KEYS, Component, Registry

DEFAULTS = {
    "text_encoder": "cbr_text_encoders/transformer",
    "memory": "cbr_memory/case_memory",
    "reuse_policy": "cbr_reuse/most_relevant",
    "retain_policy": "cbr_retain/last_k",
    "learner": "cbr_a2c/a2c",
    "pretraining": "cbr_pretrain/contrastive",
    "recorder": "cbr_tensorboard/tensorboard",
}
"""kind -> the component that a part without a `use` line means. No other file of the core names a plugin."""
DOOR = "cbr_open.door"  # `cbrcore.run` and `cbrcore.open`
OFFERS = Component("package", "cbr_find", "offers", "cbr_find.offers")  # completions; what to type after a run
OVERVIEW = Component("package", "cbr_show", "overview", "cbr_show.overview")  # a checked recipe in words
ISOLATION = Component("package", "cbr_isolate", "environment", "cbr_isolate.environment")  # of `run.isolate`
RESULTS = Component("package", "cbr_open", "results", "cbr_open.results")  # the tables of a run's results
BORDER = Component("package", "cbr_border", "parts", "cbr_border.parts")  # what parts give is checked there
SHARING = Component("package", "cbr_share", "door", "cbr_share.door")  # shared runs (FILE.cbr)
SUGGESTED = {"context_encoder": "cbr_seeded_gat/seeded_gat", "quantizer": "cbr_vq/vq"}
"""Parts that a case memory cannot do without -> the paper's choice."""
MOVED = ("memory", "reuse_policy", "retry_failed")
"""(part, part, setting): what recipes of before wrote in the first one belongs to the second."""

NULLS = ("", "~", "null", "Null", "NULL")
"""What is typed for nothing."""
PARTS = tuple(nested_parts(Recipe))
"""Keys that are parts; each is called as its kind."""
SECTIONS: dict[str, type[Settings]] = {
    key: type(field.default) for key, field in Recipe.model_fields.items() if isinstance(field.default, Settings)
}
"""Keys that are sections of settings -> their classes."""


def settings_class(component: Component) -> type[BaseModel]:
    """The component's settings class; of a recipe section the class of what stands below its key.

    Raises:
        PluginError: it cannot be imported, or is of another class than its kind asks for.
    """
    base: type[BaseModel]
    if component.kind == "recipe_section":
        path, found, base = component.factory, component.load_factory(), BaseModel
    else:
        path, found = component.config, component.load_config()
        bases: dict[str, type[BaseModel]] = {"memory": MemoryConfig, "reuse_policy": ReuseConfig}
        base = bases.get(component.kind, ComponentConfig)
    if isinstance(found, type) and issubclass(found, base):
        return found
    wanted = "pydantic model" if base is BaseModel else f"cbrcore.{base.__name__}"
    raise PluginError(f"{path!r} of {component.qualified!r} is not a {wanted} class")


class Components:
    """What the `use` lines of a recipe mean; it makes the parts while the recipe is validated.

    Attributes:
        defaults: kind -> what a part without a `use` line means: what the recipe's parts bring, before `DEFAULTS`.
        brought_by: kind -> the place of the part that brings it.
    """

    def __init__(self, registry: Registry, data: Mapping[str, Any]) -> None:
        self.defaults = dict(DEFAULTS)
        self.brought_by: dict[str, Keys] = {}
        self._registry = registry
        queue = [kind for kind in PARTS if data.get(kind) is not None]
        for kind in queue:  # it grows: what is brought may bring more
            component = self.find(kind, data.get(kind) or {})
            for other, use in (component.brings if component else {}).items():
                if other not in self.brought_by:
                    self.defaults[other], self.brought_by[other] = use, (kind, "use")
                    queue += [other] if other in PARTS and data.get(other) is None else []

    def find(self, kind: str, written: Any) -> Component | None:
        """The component of a part; None if there is none, or something is wrong with what is written."""
        if isinstance(written, dict):
            with suppress(CbrError):
                return self._registry.find(kind, str(written.get("use", self.defaults.get(kind))))
        return None

    def __call__(self, kind: str, key: str, written: Any) -> Part:
        """The part that is written at `key`; see `cbrcore.config.Resolve`."""
        use = self._use(kind, key, written)
        try:
            component = self._registry.find(kind, use)
            model = settings_class(component)
        except CbrError as error:
            raise refused(("use",), one_line(error)) from error
        needed = {name: None for name in nested_parts(model) if model.model_fields[name].is_required()}
        settings = needed | {name: value for name, value in written.items() if name != "use"}
        return Part(use=component.qualified, settings=validated(model, settings, self))

    def _use(self, kind: str, key: str, written: Any) -> str:
        names = ", ".join(component.qualified for component in self._registry.of_kind(kind))
        offered = f"one of: {names or 'none is installed'}"
        if written is None:
            raise refused((), f"is required; add '{key}: {{use: PLUGIN/NAME}}', {offered}")
        if not isinstance(written, dict):
            name = written if isinstance(written, str) else "PLUGIN/NAME"
            raise refused((), f"must be a section; write '{key}: {{use: {name}}}'")
        use = written.get("use", self.defaults.get(kind))
        if not isinstance(use, str):
            slips = [key for key in written if key != "use" and closest(key.lower(), ["use"])]
            if slips and "use" not in written:
                raise refused((slips[0],), "unknown key. Did you mean 'use'?")
            raise refused((), f"does not say which component; add 'use: PLUGIN/NAME', {offered}")
        return use

    def settings(self, model: type[BaseModel], data: Any, at: Keys = ()) -> Iterator[tuple[Keys, Schema]]:
        """Every setting of `model` and of the parts in it, which `data` holds: its place and its JSON Schema."""
        for path, field, _ in settings_of(model):
            keys = tuple(path.split("."))
            written = value_at(data, keys)
            yield (*at, *keys), field
            if "part" in field:
                yield from self._settings_of_part(field["part"], written, (*at, *keys))
            elif isinstance(written, list) and "part" in field.get("items", ()):
                for position, entry in enumerate(written):
                    yield from self._settings_of_part(field["items"]["part"], entry, (*at, *keys, position))

    def _settings_of_part(self, kind: str, written: Any, at: Keys) -> Iterator[tuple[Keys, Schema]]:
        component = self.find(kind, written)
        if component is not None:
            with suppress(PluginError):
                yield from self.settings(settings_class(component), written, at)


def apply_overrides(document: Document, overrides: Iterable[tuple[Keys, Document]], registry: Registry) -> None:
    """Set values: sections before what is in them, and ``use`` before the rest of its part; the last one wins."""
    for keys, value in sorted(overrides, key=lambda one: (len(one[0]), one[0][-1:] != ("use",))):
        if keys[-1:] == ("use",) and not value.flaws and _is_another(document, keys[:-1], value.data, registry):
            keys, value = keys[:-1], Document(value.name, {"use": value.data}, {(): Place(1)})
        document.put(keys, value)


def _is_another(document: Document, part: Keys, use: Any, registry: Registry) -> bool:
    """Whether `use` names another component than the part at `part`, whose settings are dropped then."""
    written = value_at(document.data, part)
    components = Components(registry, document.data)
    setting = dict(components.settings(Recipe, document.data)).get(part, {})
    if not isinstance(written, dict) or "part" not in setting:
        return False
    before, now = (components.find(setting["part"], found) for found in (written, {"use": use}))
    return (now or use) != (before or written.get("use"))


class Checker:
    """Checks one recipe, on a copy of its data; the document gets its flaws.

    A recipe that states no name is called `name`; its relative paths start at `folder`; `starts` as in
    `cbrcore.recipe.load_recipe`.
    """

    def __init__(
        self, document: Document, registry: Registry, name: str, folder: Path, *, starts: bool = False
    ) -> None:
        self._document = document
        self._registry = registry
        self._name = name
        self._folder = folder
        self._starts = starts
        self._data: dict[str, Any] = copy.deepcopy(document.data)
        self._sections = {c.name: c for c in registry.of_kind("recipe_section") if c.name in document.data}
        self._components = Components(registry, document.data)

    def check(self) -> Recipe | None:
        """The recipe; worth nothing if the document has flaws."""
        self._drop_nulls()
        self._fill_in()
        self._expand_directory()
        self._check_keys()
        self._check_cases()
        self._check_paths()
        written = {name: self._data.pop(name) for name in self._sections if name in self._data}
        recipe = self._checked(Recipe, self._data)
        self._check_run()
        sections = {name: self._section(self._sections[name], value) for name, value in written.items()}
        return None if recipe is None else recipe.model_copy(update={"sections": sections})

    def _drop_nulls(self) -> None:
        """``memory: null`` is the same as no memory; ``memory:`` with nothing below it may mean either."""
        data = self._data
        for key in [key for key in (*CORE_KEYS, *self._sections) if key in data and data[key] is None]:
            if self._document.typed((key,)) != "":
                del data[key]
                continue
            data[key] = {}
            if key not in PARTS or key in DEFAULTS:  # another empty part lacks its 'use' line and is told so
                self._note((key,), f"is empty; write '{key}: {{}}' for its defaults, or remove the line")

    def _fill_in(self) -> None:
        """Add what every recipe has; which components its parts are says `Components.defaults`."""
        data, components = self._data, self._components
        data.setdefault("name", self._name)
        for kind in ("text_encoder", "learner", *(kind for kind in components.brought_by if kind in PARTS)):
            data.setdefault(kind, {})
        if "memory" in data:
            for kind in ("reuse_policy", "retain_policy"):
                data.setdefault(kind, {})
            self._move(*MOVED)
        for kind in ("environment", "agent"):
            data.setdefault(kind, None)  # its absence is told as that of any part
        if isinstance(data.setdefault("training", {}), dict) and components.find("pretraining", {}):
            data["training"].setdefault("pretrain", {})
        recorders = data.setdefault("recorders", [{}] if components.find("recorder", {}) else [])
        if isinstance(recorders, list):
            data["recorders"] = [{"use": entry} if isinstance(entry, str) else entry for entry in recorders]

    def _move(self, part: str, to: str, setting: str) -> None:
        """A setting that stood in another part before."""
        old, new = self._data[part], self._data[to]
        if isinstance(old, dict) and isinstance(new, dict) and setting in old and setting not in new:
            new[setting] = old.pop(setting)

    def _expand_directory(self) -> None:
        folder = self._data.setdefault("directory", ".")
        if isinstance(folder, str):
            try:
                self._data["directory"] = str(expand_path(folder, self._folder))
            except CbrError as error:
                self._note(("directory",), one_line(error))

    def _check_keys(self) -> None:
        schema = self._data.pop("schema", None)
        if schema is None:
            self._note((), "has no schema number; add the line 'schema: 1'")
        elif schema != 1 or isinstance(schema, bool):
            self._note(("schema",), f"this cbr reads schema 1, not {schema!r}; use the cbr that wrote it")
        for key in [key for key in self._data if key not in (*CORE_KEYS, *self._sections)]:
            self._note((key,), unknown((key,), list(self._known())))
            del self._data[key]

    def _check_cases(self) -> None:
        for part, usual in SUGGESTED.items():
            if "memory" in self._data and part not in self._data:
                self._note(("memory",), f"a case memory needs a {part}; add '{part}: {{use: {usual}}}'")
        for part in (*SUGGESTED, "reuse_policy", "retain_policy"):
            if "memory" not in self._data and part in self._data and not self._stands_alone(part):
                self._note((part,), f"only a case memory uses it; add 'memory: {{}}', or remove {part}")

    def _stands_alone(self, part: str) -> bool:
        """Whether it is a reuse policy with cases of its own."""
        component = self._components.find(part, self._data[part]) if part == "reuse_policy" else None
        with suppress(CbrError):
            return component is not None and not cast(type[ReuseConfig], settings_class(component)).needs_cases
        return False

    def _check_paths(self) -> None:
        """What must be there for a run to start; see `cbrcore.config.ExistingPath`."""
        for keys, field in self._settings().items() if self._starts else ():
            marks = [one["existing"] for one in (field, *field.get("anyOf", ())) if "existing" in one]
            text = value_at(self._data, keys)
            if marks and isinstance(text, str):
                try:
                    existing_path(text, Path(str(self._data["directory"])), **marks[0])
                except CbrError as error:
                    self._note(keys, one_line(error))

    def _check_run(self) -> None:
        run = self._data.get("run")
        given = [key for key in ("episodes", "env_steps") if isinstance(run, dict) and run.get(key) is not None]
        if run is None:
            self._note((), "does not say how long to run; add 'run: {episodes: 100}'")
        elif len(given) != 1 and not any(flaw.keys[:1] == ("run",) for flaw in self._document.flaws):
            self._note(("run",), "needs either 'episodes' or 'env_steps', and not both; as in 'episodes: 100'")

    def _checked(self, model: type[Model], data: Any, at: Keys = ()) -> Model | None:
        """The settings that `data`, written at `at`, means; notes everything that is wrong with them."""
        checked = partial(check, model, data, self._components, at=at, known=self._known)
        found, faults = checked()
        texts = {fault.keys: self._document.typed(fault.keys) for fault in faults if fault.kind == "string_type"}
        as_typed = {keys: typed for keys, typed in texts.items() if typed not in (None, *NULLS)}
        for keys, typed in as_typed.items():  # 1.10 or true is what a text setting takes as it was typed
            *around, last = keys[len(at) :]
            value_at(data, tuple(around))[last] = typed
        if as_typed:
            found, faults = checked()
        for fault in faults:
            whole = fault.kind == "model_type" and len(fault.keys) == 1
            said = "must be a section of 'key: value' lines; write {} for its defaults" if whole else fault.message
            self._note(fault.keys, said)
        return found

    def _known(self) -> dict[str, str]:
        """All keys that this recipe could have -> their bounds."""
        known = dict.fromkeys([*CORE_KEYS, *(c.name for c in self._registry.of_kind("recipe_section"))], "")
        for keys, field in self._settings().items():
            if keys[0] in known:
                path = ".".join(map(str, keys))
                known |= {path: bounds(field)} | ({f"{path}.use": ""} if "part" in field else {})
        return known

    def _settings(self) -> dict[Keys, Schema]:
        """Every setting that this recipe could have."""
        settings = dict(self._components.settings(Recipe, {"memory": {}} | self._data))
        for name, component in self._sections.items():
            with suppress(PluginError):
                settings |= self._components.settings(settings_class(component), self._data.get(name), (name,))
        return settings

    def _section(self, component: Component, written: Any) -> BaseModel | None:
        """The section of a plugin, which may look at the rest of the recipe."""
        at = (component.name,)
        if claims := self._registry.clashes("recipe_section").get(component.name):
            names = " and by ".join(claim.plugin for claim in claims)
            self._note(at, f"is offered by {names}; uninstall one of them")
            return None
        try:
            model = settings_class(component)
        except CbrError as error:
            self._note(at, one_line(error))
            return None
        found = self._checked(model, written, at)
        if isinstance(found, ChecksRecipe):
            try:
                for keys, what in found.faults(partial(self._try, component.name)):
                    self._note((*at, *keys), what)
            except CbrError:
                raise
            except Exception as error:
                self._note(at, f"its own check failed: {type(error).__name__}: {error}")
        return found

    def _try(self, section: str, changes: Mapping[str, Keys]) -> Iterator[Fault]:
        """Check the recipe with other values; see `cbrcore.interfaces.Trial`."""
        trial = copy.deepcopy(self._document)
        trial.flaws = []
        del trial.data[section]
        values = {path: self._document.part((section, *keys), path) for path, keys in changes.items()}
        apply_overrides(trial, ((tuple(path.split(".")), value) for path, value in values.items()), self._registry)
        Checker(trial, self._registry, self._name, self._folder, starts=self._starts).check()
        for flaw in trial.flaws:
            if flaw.label in changes:
                inside = dotted(flaw.keys).removeprefix(flaw.label).lstrip(".")
                yield changes[flaw.label], f"{inside}: {flaw.message}" if inside else flaw.message

    def _note(self, keys: Keys, what: str) -> None:
        left_out = bool(keys) and keys[0] not in self._document.data
        at = self._components.brought_by.get(str(keys[0])) if left_out else None
        self._document.note(keys, what, at=at)
