"""The rules of a recipe: which keys there are, which parts come by default, and what belongs together."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cbrcore.config import (
    ComponentConfig,
    EvaluationConfig,
    MemoryConfig,
    Part,
    Recipe,
    RunConfig,
    Settings,
    TrainingConfig,
    expand_path,
    nested_parts,
)
from cbrcore.errors import CbrError, PluginError
from cbrcore.interfaces import ChecksRecipe, Keys
from cbrcore.interfaces import Fault as Wrong
from cbrcore.recipe.draft import Draft, Override, value_at
from cbrcore.recipe.words import Fault, Model, check, describe, one_line, refused, unknown, validated
from cbrcore.registry import CORE_KEYS, Component, Registry

DEFAULTS = {
    "text_encoder": "cbr_text_encoders/transformer",
    "memory": "cbr_memory/case_memory",
    "retain_policy": "cbr_retain/last_k",
    "learner": "cbr_a2c/a2c",
    "pretraining": "cbr_pretrain/contrastive",
    "recorder": "cbr_tensorboard/tensorboard",
}
"""kind -> the component that a part without a `use` line means. No other file of the core names a plugin."""
SUGGESTED = {"context_encoder": "cbr_seeded_gat/seeded_gat", "quantizer": "cbr_vq/vq"}
"""Parts that a case memory cannot do without -> the paper's choice."""

PARTS = tuple(nested_parts(Recipe))
"""Keys that are parts; each is called as its kind."""
SECTIONS: dict[str, type[Settings]] = {
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "run": RunConfig,
}


def settings_class(component: Component) -> type[BaseModel]:
    """The component's settings class; of a recipe section the class of what stands below its key.

    Raises:
        PluginError: it cannot be imported, or is of another class than its kind asks for.
    """
    if component.kind == "recipe_section":
        path, found, base = component.factory, component.load_factory(), BaseModel
    else:
        path, found, base = component.config, component.load_config(), _BASES.get(component.kind, ComponentConfig)
    if isinstance(found, type) and issubclass(found, base):
        return found
    wanted = "pydantic model" if base is BaseModel else f"cbrcore.{base.__name__}"
    raise PluginError(f"{path!r} of {component.qualified!r} is not a {wanted} class")


_BASES: dict[str, type[BaseModel]] = {"memory": MemoryConfig}
"""kind -> what its settings are, if they are more than a `ComponentConfig`."""


class Components:
    """What the `use` lines of a recipe mean; it makes the parts while the recipe is validated.

    Args:
        defaults: kind -> what a part without a `use` line means.
    """

    def __init__(self, registry: Registry, defaults: Mapping[str, str] = DEFAULTS) -> None:
        self.registry = registry
        self.defaults = defaults

    def __repr__(self) -> str:
        return f"Components({self.registry!r})"

    def __call__(self, kind: str, key: str, written: Any) -> Part:
        """The part that is written at `key`; see `cbrcore.config.Resolve`."""
        use = self._use(kind, key, written)
        try:
            component = self.registry.find(kind, use)
            model = settings_class(component)
        except CbrError as error:
            raise refused(("use",), one_line(error)) from error
        needed = {name: None for name in nested_parts(model) if model.model_fields[name].is_required()}
        settings = needed | {name: value for name, value in written.items() if name != "use"}
        return Part(use=component.qualified, settings=validated(model, settings, self))

    def _use(self, kind: str, key: str, written: Any) -> str:
        if written is None:
            raise refused((), f"is required; add '{key}: {{use: PLUGIN/NAME}}', {self._offered(kind)}")
        if not isinstance(written, dict):
            name = written if isinstance(written, str) else "PLUGIN/NAME"
            raise refused((), f"must be a section; write '{key}: {{use: {name}}}'")
        use = written.get("use", self.defaults.get(kind))
        if not isinstance(use, str):
            raise refused((), f"does not say which component; add 'use: PLUGIN/NAME', {self._offered(kind)}")
        return use

    def _offered(self, kind: str) -> str:
        names = [component.qualified for component in self.registry.of_kind(kind)]
        return f"one of: {', '.join(names) or 'none is installed'}"

    def component(self, kind: str, written: Any) -> Component | None:
        """The component of a part; None if there is none, or something is wrong with what is written."""
        use = written.get("use", self.defaults.get(kind)) if isinstance(written, dict) else None
        try:
            return None if use is None else self.registry.find(kind, str(use))
        except CbrError:
            return None

    def spots(self, data: Any) -> dict[Keys, Spot]:
        """All sections and parts of a recipe by their place, also those that are left out."""
        recorders = data.get("recorders")
        entries = enumerate(recorders if isinstance(recorders, list) else ())
        listed = (self._part("recorder", entry, ("recorders", position)) for position, entry in entries)
        return dict(chain(self._inside(Recipe, data, ()), *listed))

    def _inside(self, model: type[BaseModel], data: Any, at: Keys) -> Iterator[tuple[Keys, Spot]]:
        marks = nested_parts(model)
        for name, field in model.model_fields.items():
            keys, inner = (*at, name), value_at(data, (name,))
            if name in marks:
                yield from self._part(marks[name].kind, inner, keys)
            elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                yield keys, Spot(field.annotation)
                yield from self._inside(field.annotation, inner, keys)

    def _part(self, kind: str, written: Any, at: Keys) -> Iterator[tuple[Keys, Spot]]:
        component = self.component(kind, written)
        try:
            model = None if component is None else settings_class(component)
        except PluginError:
            model = None
        yield at, Spot(model, kind, component)
        if model is not None:
            yield from self._inside(model, written, at)


@dataclass(frozen=True)
class Spot:
    """A section of a recipe: the class of its settings (None: unknown), and which part it is, if it is one."""

    model: type[BaseModel] | None
    kind: str | None = None
    component: Component | None = None


def components_of(data: Mapping[str, Any], registry: Registry) -> tuple[Components, dict[str, Keys]]:
    """What is meant where a recipe names no component: what its parts bring, before the defaults.

    Returns:
        also who brings it: kind -> the place of the part that does.
    """
    brought: dict[str, str] = {}
    by: dict[str, Keys] = {}
    queue = [kind for kind in PARTS if data.get(kind) is not None]
    for kind in queue:  # it grows: what is brought may bring more
        component = Components(registry, DEFAULTS | brought).component(kind, data.get(kind) or {})
        for other, use in (component.brings if component else {}).items():
            if other not in brought:
                brought[other], by[other] = use, (kind, "use")
                queue += [other] if other in PARTS and data.get(other) is None else []
    return Components(registry, DEFAULTS | brought), by


def apply_override(draft: Draft, override: Override, registry: Registry) -> None:
    """Set a value; another component for a part starts from its own defaults."""
    *part, last = override.keys or ("",)
    written = value_at(draft.data, tuple(part))
    if last == "use" and isinstance(written, dict) and not override.value.flaws:
        components, _ = components_of(draft.data, registry)
        spot = components.spots(draft.data).get(tuple(part))
        if spot is not None and spot.kind is not None:
            new, named = components.component(spot.kind, {"use": override.value.data}), written.get("use")
            if (new or override.value.data) != (spot.component or named):
                override = override.alone()
    draft.put(override)


class Checker:
    """Checks one draft, on a copy of its data; problems go to the draft.

    Args:
        name: the recipe's name if it does not state one.
        folder: where relative paths start.
    """

    def __init__(self, draft: Draft, registry: Registry, name: str, folder: Path) -> None:
        self._draft = draft
        self._registry = registry
        self._name = name
        self._folder = folder
        self._data: dict[str, Any] = copy.deepcopy(draft.data)
        self._sections = {c.name: c for c in registry.of_kind("recipe_section") if c.name in draft.data}
        self._components, self._by = components_of(draft.data, registry)

    def __repr__(self) -> str:
        return f"Checker({self._draft!r})"

    def check(self) -> Recipe | None:
        """The recipe; worth nothing if the draft has problems."""
        self._drop_nulls()
        self._fill_in()
        self._check_keys()
        self._check_cases()
        written = {name: self._data.pop(name) for name in self._sections if name in self._data}
        recipe = self._checked(Recipe, self._data)
        self._check_run()
        sections = {name: self._section(self._sections[name], value) for name, value in written.items()}
        return None if recipe is None else recipe.model_copy(update={"sections": sections})

    def _drop_nulls(self) -> None:
        """``memory: null`` is the same as no memory; ``memory:`` with nothing below it may mean either."""
        data = self._data
        for key in [key for key in (*CORE_KEYS, *self._sections) if key in data and data[key] is None]:
            if self._draft.typed((key,)) != "":
                del data[key]
                continue
            data[key] = {}
            if key not in PARTS or key in DEFAULTS:  # another empty part lacks its 'use' line and is told so
                self._note((key,), f"is empty; write '{key}: {{}}' for its defaults, or remove the line")

    def _fill_in(self) -> None:
        """Add what every recipe has; which components these parts are says `Components.defaults`."""
        data = self._data
        for kind in ("text_encoder", "learner", *(kind for kind in self._by if kind in PARTS)):
            data.setdefault(kind, {})
        if "memory" in data:
            data.setdefault("retain_policy", {})
        for kind in ("environment", "agent"):
            data.setdefault(kind, None)  # its absence is told as that of any part
        if isinstance(data.setdefault("training", {}), dict) and self._components.component("pretraining", {}):
            data["training"].setdefault("pretrain", {})
        recorders = data.setdefault("recorders", [{}] if self._components.component("recorder", {}) else [])
        if isinstance(recorders, list):
            data["recorders"] = [{"use": entry} if isinstance(entry, str) else entry for entry in recorders]
        data.setdefault("name", self._name)
        folder = data.setdefault("directory", ".")
        if isinstance(folder, str):
            try:
                data["directory"] = str(expand_path(folder, self._folder))
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
        for part in (*SUGGESTED, "retain_policy"):
            if "memory" not in self._data and part in self._data:
                self._note((part,), f"only a case memory uses it; add 'memory: {{}}', or remove {part}")

    def _check_run(self) -> None:
        run = self._data.get("run")
        wrong = any(problem.path.partition(".")[0] == "run" for problem in self._draft.problems)
        if run is None:
            self._note((), "does not say how long to run; add 'run: {episodes: 100}'")
        elif (
            isinstance(run, dict) and not wrong and (run.get("episodes") is None) == (run.get("env_steps") is None)
        ):
            self._note(("run",), "needs either 'episodes' or 'env_steps', and not both; as in 'episodes: 100'")

    def _checked(self, model: type[Model], data: Any, at: Keys = ()) -> Model | None:
        """The settings that `data`, written at `at`, means; notes everything that is wrong with them."""
        found, faults = check(model, data, self._components, at=at, known=self._known)
        if self._restore_text(data, at, faults):
            found, faults = check(model, data, self._components, at=at, known=self._known)
        for fault in faults:
            whole = fault.kind == "model_type" and len(fault.keys) == 1
            said = "must be a section of 'key: value' lines; write {} for its defaults" if whole else fault.message
            self._note(fault.keys, said)
        return found

    def _restore_text(self, data: Any, at: Keys, faults: Iterable[Fault]) -> bool:
        """A text setting takes ``1.10`` or ``true`` as it was typed, not as YAML reads it."""
        restored = False
        for fault in faults:
            typed = self._draft.typed(fault.keys)
            if fault.kind == "string_type" and typed not in (None, "", "~", "null"):
                *around, last = fault.keys[len(at) :]
                value_at(data, tuple(around))[last] = typed
                restored = True
        return restored

    def _known(self) -> dict[str, str]:
        """All keys that this recipe could have -> their bounds."""
        known = dict.fromkeys([*CORE_KEYS, *(c.name for c in self._registry.of_kind("recipe_section"))], "")
        models = [(keys, spot.model) for keys, spot in self._components.spots({"memory": {}} | self._data).items()]
        for name, component in self._sections.items():
            with contextlib.suppress(PluginError):
                models.append(((name,), settings_class(component)))
        for keys, model in models:
            with contextlib.suppress(PluginError):
                for setting in describe(model) if model else ():
                    known[".".join(map(str, (*keys, setting.path)))] = setting.bounds
        return known

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
            for keys, what in found.faults(partial(self._try, component.name)):
                self._note((*at, *keys), what)
        return found

    def _try(self, section: str, changes: Mapping[str, Keys]) -> Iterator[Wrong]:
        """Check the recipe with other values; see `cbrcore.interfaces.Trial`."""
        trial = self._draft.trial(without=section)
        overrides = [
            Override(tuple(path.split(".")), self._draft.document_at((section, *keys)), path)
            for path, keys in changes.items()
        ]
        for override in sorted(overrides, key=lambda override: override.rank):
            apply_override(trial, override, self._registry)
        Checker(trial, self._registry, self._name, self._folder).check()
        for problem in trial.problems:
            if problem.label in changes:
                inside = problem.path.removeprefix(problem.label).lstrip(".")
                yield changes[problem.label], f"{inside}: {problem.what}" if inside else problem.what

    def _note(self, keys: Keys, what: str) -> None:
        brought = self._by.get(str(keys[0])) if keys and keys[0] not in self._draft.data else None
        self._draft.note(keys, what, at=brought)
