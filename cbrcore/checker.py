"""The rules of a recipe: which keys there are, what a part needs, what belongs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cbrcore.config import (
    ComponentConfig,
    EvaluationConfig,
    Part,
    RecipeHead,
    RunConfig,
    Settings,
    TrainingConfig,
    expand_path,
    nested_parts,
)
from cbrcore.draft import Draft, Override, depth, dotted
from cbrcore.errors import CbrError, PluginError
from cbrcore.explain import Fault, check, describe
from cbrcore.registry import Component, Registry
from cbrcore.suggestions import Places
from cbrcore.sweep import VARIANTS
from cbrcore.yamltext import Keys

HEAD = ("name", "seed", "directory")
PARTS = (
    "environment",
    "text_encoder",
    "context_encoder",
    "quantizer",
    "memory",
    "retain_policy",
    "agent",
    "learner",
)
SECTIONS: dict[str, type[Settings]] = {
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "run": RunConfig,
}
TOP = ("schema", *HEAD, *PARTS, *SECTIONS, "sweep")

REQUIRED = ("environment", "agent")
DEFAULT_TEXT_ENCODER = "cbr_text_encoders/transformer"
DEFAULT_RETAIN_POLICY = "cbr_retain/last_k"
OF_MEMORY = {"context_encoder": "cbr_seeded_gat/seeded_gat", "quantizer": "cbr_vq/vq"}
"""Parts that a case memory cannot do without -> the paper's choice."""

NO_PARTS: Mapping[str, Part | None] = {}


def settings_class(component: Component) -> type[ComponentConfig]:
    """The component's settings class.

    Raises:
        PluginError: it cannot be imported, or is not a `ComponentConfig`.
    """
    found = component.load_config()
    if isinstance(found, type) and issubclass(found, ComponentConfig):
        return found
    raise PluginError(f"{component.config!r} of {component.qualified!r} is not a cbrcore.ComponentConfig class")


def apply_override(draft: Draft, override: Override, registry: Registry) -> None:
    """Set a value; another component for a part starts from its own defaults."""
    *part, last = override.keys or ("",)
    former = _named_at(draft.data, part, registry) if last == "use" else None
    if former is not None and not _same_component(registry, *former, override.value.data):
        draft.keep_only(tuple(part), "use")
    draft.apply(override)


def _named_at(data: Any, keys: Sequence[str | int], registry: Registry) -> tuple[str, Any] | None:
    """(kind, what its `use` line says) of the part at `keys`; None if there is no such part."""
    kinds: dict[str, str] = {kind: kind for kind in PARTS}
    kind = None
    for key in keys:
        kind, data = kinds.get(str(key)), data.get(key)
        if kind is None or not isinstance(data, dict) or "use" not in data:
            return None
        kinds = _kinds_in(registry, kind, data["use"])
    return None if kind is None else (kind, data["use"])


def _kinds_in(registry: Registry, kind: str, name: Any) -> dict[str, str]:
    """setting -> kind, for the settings of a component that are parts of their own."""
    try:
        model = settings_class(registry.find(kind, str(name)))
    except CbrError:
        return {}
    return {setting: mark.kind for setting, mark in nested_parts(model).items()}


def _same_component(registry: Registry, kind: str, one: Any, other: Any) -> bool:
    try:
        return registry.find(kind, str(one)) == registry.find(kind, str(other))
    except CbrError:
        return bool(one == other)


class _Wrong(Exception):
    def __init__(self, keys: Keys, what: str) -> None:
        super().__init__(what)
        self.keys = keys
        self.what = what


class Checker:
    """Checks one draft; problems go to the draft, what is right into the fields of a `Recipe`.

    Args:
        name: the recipe's name if it does not state one.
        folder: where relative paths start.
    """

    def __init__(self, draft: Draft, registry: Registry, name: str, folder: Path) -> None:
        self._draft = draft
        self._registry = registry
        self._name = name
        self._folder = folder
        self._components: dict[Keys, Component] = {}
        self._models: dict[str, type[Settings]] = dict(SECTIONS)

    def __repr__(self) -> str:
        return f"Checker({self._draft!r})"

    def check(self) -> dict[str, Any]:
        """The fields of the recipe; worth nothing if the draft has problems."""
        self._remove_nulls()
        self._fill_in_parts()
        for kind in PARTS:
            self._resolve((kind,), kind, required=kind in REQUIRED)
        self._resolve(("training", "pretrain"), "pretraining", required=False)
        self._check_top()
        self._check_cases()
        fields = self._head()
        for section, model in SECTIONS.items():
            if section in self._draft.data:
                fields[section] = self._settings((section,), model)
        fields |= {kind: part for kind in PARTS if (part := self._part((kind,))) is not None}
        self._check_run(fields.get("run"))
        self._check_sweep()
        return fields | ({"sweep": self._draft.data["sweep"]} if "sweep" in self._draft.data else {})

    def _remove_nulls(self) -> None:
        """``memory: null`` is the same as no memory; ``memory:`` with nothing below it may mean either."""
        data = self._draft.data
        for key in [key for key in TOP if key in data and data[key] is None]:
            if self._draft.typed((key,)) != "":
                del data[key]
                continue
            data[key] = {}
            if key not in PARTS:  # an empty part lacks its 'use' line and is told so
                self._note((key,), f"is empty; write '{key}: {{}}' for its defaults, or remove the line")

    def _fill_in_parts(self) -> None:
        self._draft.data.setdefault("text_encoder", {"use": DEFAULT_TEXT_ENCODER})
        data = self._draft.data
        if "memory" in data:
            data.setdefault("retain_policy", {"use": DEFAULT_RETAIN_POLICY})
            if isinstance(data["memory"], dict) and "use" not in data["memory"]:
                data["memory"] = {"use": "cbr_memory/case_memory", **data["memory"]}
        agent = data.get("agent")
        if "learner" not in data:
            learner = (
                "cbr_joint/joint"
                if isinstance(agent, dict) and "joint" in str(agent.get("use"))
                else "cbr_a2c/a2c"
            )
            data["learner"] = {"use": learner}
        training = data.setdefault("training", {})
        if isinstance(training, dict):
            pre = training.get("pretrain", {})
            if isinstance(pre, dict):
                training["pretrain"] = {"use": "cbr_pretrain/contrastive", **pre}

    def _resolve(self, keys: Keys, kind: str, *, required: bool) -> None:
        """Find the component that the part at `keys` uses and its settings class; then the parts in it."""
        try:
            component = self._component(keys, kind, required=required)
            if component is None:
                return
            model = settings_class(component)
        except _Wrong as error:
            self._note(error.keys, error.what)
        except CbrError as error:
            self._note((*keys, "use"), _one_line(error))
        else:
            self._components[keys], self._models[dotted(keys)] = component, model
            for name, mark in nested_parts(model).items():
                self._resolve((*keys, name), mark.kind, required=model.model_fields[name].is_required())

    def _component(self, keys: Keys, kind: str, *, required: bool) -> Component | None:
        part, key = self._written(keys), keys[-1]
        offered = (
            ", ".join(component.qualified for component in self._registry.of_kind(kind)) or "none is installed"
        )
        if part is None and not required:
            return None
        if part is None:
            raise _Wrong(keys, f"is required; add '{key}: {{use: PLUGIN/NAME}}', one of: {offered}")
        if not isinstance(part, dict):
            name = part if isinstance(part, str) else "PLUGIN/NAME"
            raise _Wrong(keys, f"must be a section; write '{key}: {{use: {name}}}'")
        if not isinstance(part.get("use"), str):
            raise _Wrong(keys, f"does not say which component; add 'use: PLUGIN/NAME', one of: {offered}")
        return self._registry.find(kind, part["use"])

    def _written(self, keys: Keys) -> Any:
        """What the draft holds at `keys`; None if nothing is there."""
        value = self._draft.data
        for key in keys:
            value = value.get(key)
        return value

    def _check_top(self) -> None:
        for key in self._draft.data:
            if key not in TOP:
                self._note((key,), self._unknown((key,)))
        schema = self._draft.data.get("schema")
        if schema is None:
            self._note((), "has no schema number; add the line 'schema: 1'")
        elif schema != 1 or isinstance(schema, bool):
            self._note(("schema",), f"this cbr reads schema 1, not {schema!r}; use the cbr that wrote it")

    def _check_cases(self) -> None:
        data = self._draft.data
        for part, usual in OF_MEMORY.items():
            if "memory" in data and part not in data:
                self._note(("memory",), f"a case memory needs a {part}; add '{part}: {{use: {usual}}}'")
        for part in (*OF_MEMORY, "retain_policy"):
            if "memory" not in data and part in data:
                self._note((part,), f"only a case memory uses it; add 'memory: {{}}', or remove {part}")

    def _check_run(self, run: Any) -> None:
        if "run" not in self._draft.data:
            self._note((), "does not say how long to run; add 'run: {episodes: 100}'")
        elif isinstance(run, RunConfig) and (run.episodes is None) == (run.env_steps is None):
            self._note(("run",), "needs either 'episodes' or 'env_steps', and not both; as in 'episodes: 100'")

    def _head(self) -> dict[str, Any]:
        data = self._draft.data
        data.setdefault("name", self._name)
        data.setdefault("directory", ".")
        if isinstance(data["directory"], str):
            try:
                data["directory"] = str(expand_path(data["directory"], self._folder))
            except CbrError as error:
                self._note(("directory",), _one_line(error))
        head = self._checked((), RecipeHead, {key: data[key] for key in HEAD if key in data})
        return {} if head is None else dict(head)

    def _part(self, keys: Keys) -> Part | None:
        """The part at `keys`; None if there is none, or something is wrong with it."""
        component = self._components.get(keys)
        settings = None if component is None else self._settings(keys, self._models[dotted(keys)])
        return None if component is None or settings is None else Part(use=component.qualified, settings=settings)

    def _settings(self, keys: Keys, model: type[Settings]) -> Settings | None:
        section = self._written(keys)
        if not isinstance(section, dict):
            self._note(keys, "must be a section of 'key: value' lines; write {} for its defaults")
            return None
        parts = {name: self._part((*keys, name)) for name in nested_parts(model)}
        left_out = ["use", *(name for name, part in parts.items() if part is None)]
        data = {key: value for key, value in section.items() if key not in left_out}
        return self._checked(keys, model, data, parts)

    def _checked(
        self, keys: Keys, model: type[Settings], data: dict[str, Any], parts: Mapping[str, Part | None] = NO_PARTS
    ) -> Settings | None:
        """The settings that `data`, written at `keys`, means; notes everything that is wrong with them.

        Args:
            parts: the settings that are parts of their own; what is wrong with those is noted already.
        """
        try:
            found, faults = check(model, data, parts)
            if self._restore_text(keys, data, faults):
                found, faults = check(model, data, parts)
        except CbrError as error:
            self._note(keys, _one_line(error))
            return None
        for fault in faults:
            at = keys + fault.keys
            if not (fault.keys and fault.keys[0] in parts):
                self._note(at, self._unknown(at) if fault.kind == "extra_forbidden" else fault.message)
        return found

    def _restore_text(self, keys: Keys, data: dict[str, Any], faults: Iterable[Fault]) -> bool:
        """A text setting takes ``1.10`` or ``true`` as it was typed, not as YAML reads it."""
        restored = False
        for fault in faults:
            typed = self._draft.typed(keys + fault.keys)
            if fault.kind == "string_type" and typed not in (None, "", "~", "null"):
                replace_at(data, fault.keys, typed)
                restored = True
        return restored

    def _unknown(self, keys: Keys) -> str:
        settings = {
            section: [setting.path for setting in describe(model)] for section, model in self._models.items()
        }
        return Places(TOP, settings).unknown(keys)

    def _check_sweep(self) -> None:
        axes = self._draft.data.get("sweep", {})
        if not isinstance(axes, dict):
            self._note(("sweep",), "must be a section of 'dotted.path: [values]' lines")
            return
        for axis, values in axes.items():
            if axis == VARIANTS:
                self._check_variants(values)
            elif not isinstance(values, list) or not values:
                self._note(("sweep", axis), "needs a list of values, as in 'training.gamma: [0.9, 0.95]'")
            elif not _can_be_swept(axis):
                self._note(("sweep", axis), "cannot be swept")
            else:
                self._try_values(axis, len(values))

    def _check_variants(self, variants: Any) -> None:
        """Each variant is a name and settings by dotted path, which belong together."""
        if not isinstance(variants, dict) or not variants:
            self._note(("sweep", VARIANTS), "must be a section of 'name: {dotted.path: value}' lines")
            return
        for name, settings in variants.items():
            keys: Keys = ("sweep", VARIANTS, name)
            if not isinstance(settings, dict):
                self._note(keys, "must be a section of 'dotted.path: value' lines")
            elif wrong := [path for path in settings if not _can_be_swept(path)]:
                self._note((*keys, wrong[0]), "cannot be swept")
            else:
                self._try({path: (*keys, path) for path in settings})

    def _try_values(self, axis: str, count: int) -> None:
        """Check each value of an axis alone; what only a combination breaks shows when the sweep is expanded."""
        for position in range(count):
            self._try({axis: ("sweep", axis, position)})

    def _try(self, settings: Mapping[str, Keys]) -> None:
        """Check the recipe with these settings: dotted path -> where in the sweep its value is written."""
        trial = self._draft.trial()
        del trial.data["sweep"]
        for path, keys in sorted(settings.items(), key=lambda item: depth(item[0])):
            value = Override(tuple(path.split(".")), self._draft.document_at(keys), label=path)
            apply_override(trial, value, self._registry)
        Checker(trial, self._registry, self._name, self._folder).check()
        for problem in trial.problems:
            if problem.mark.label in settings:
                inside = problem.path.removeprefix(problem.mark.label).lstrip(".")
                keys = settings[problem.mark.label]
                self._note(keys, f"{inside}: {problem.what}" if inside else problem.what)

    def _note(self, keys: Keys, what: str) -> None:
        self._draft.note(keys, what)


def _can_be_swept(path: str) -> bool:
    return all(path.split(".")) and path.split(".")[0] not in ("schema", "sweep")


def replace_at(data: Any, keys: Sequence[str | int], value: Any) -> None:
    """Put `value` in the place of what nested `data` holds at `keys`."""
    for key in keys[:-1]:
        data = data[key]
    data[keys[-1]] = value


def _one_line(error: CbrError) -> str:
    return error.message if error.hint is None else f"{error.message}. {error.hint}"
