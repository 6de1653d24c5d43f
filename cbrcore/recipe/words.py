"""pydantic in plain words: what is wrong with settings, which settings there are, and what was probably meant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from cbrcore.config import Resolve
from cbrcore.errors import CbrError, PluginError, closest
from cbrcore.interfaces import Keys
from cbrcore.recipe.text import holds

Model = TypeVar("Model", bound=BaseModel)
Schema = Mapping[str, Any]

REFUSED = "refused"
"""The kind of a fault that is in our words already."""


@dataclass(frozen=True)
class SettingFault:
    """One thing that is wrong with some settings: where, pydantic's name for it, and our words."""

    keys: Keys
    kind: str
    message: str


# -- what is wrong with settings ---------------------------------------------------------------------------------


def check(
    model: type[Model],
    data: Any,
    resolve: Resolve | None = None,
    *,
    at: Keys = (),
    known: Callable[[], Mapping[str, str]] | None = None,
) -> tuple[Model | None, list[SettingFault]]:
    """The settings that `data` means, or everything that is wrong with it.

    Args:
        resolve: makes the parts among the settings.
        at: where `data` stands; the faults' places start there.
        known: dotted paths of all keys that there could be -> their bounds; of the model's own if left out.
    """
    try:
        return validated(model, data, resolve), []
    except ValidationError as error:
        paths = known() if known else {path: bounds(field) for path, field, _ in settings_of(model)}
        # if nothing written is wrong, then the author's own default is
        found = _written(error, data) or [(detail["loc"], detail) for detail in error.errors()]
        faults = [((*at, *keys), detail) for keys, detail in found]
        return None, [SettingFault(keys, detail["type"], _said(keys, detail, paths)) for keys, detail in faults]


def validated(model: type[Model], data: Any, resolve: Resolve | None = None) -> Model:
    """The settings that `data` means.

    Strict: text is no number and 1 is no boolean, but a list gives a tuple and text gives a path or an enum
    (pydantic's JSON mode, which also complains about defaults such as a `Path`: what is written is right then).

    Raises:
        ValidationError: `data` is wrong. A `CbrError` of the model's own validators is said as it stands, anything
            else that they raise with its type.
    """
    try:
        try:
            return model.model_validate_json(json.dumps(data), strict=True, context=resolve)
        except ValidationError as error:
            if _written(error, data):
                raise
        return model.model_validate(data, context=resolve)
    except ValidationError:
        raise
    except CbrError as error:
        raise refused((), one_line(error)) from error
    except Exception as error:
        raise refused((), f"its settings class failed: {type(error).__name__}: {error}") from error


def refused(keys: Keys, what: str) -> ValidationError:
    """What a `Resolve` raises."""
    said = PydanticCustomError(REFUSED, "{said}", {"said": what})
    return ValidationError.from_exception_data("part", [InitErrorDetails(type=said, loc=keys, input=None)])


def one_line(error: CbrError) -> str:
    """An error as a message in a list of problems."""
    return error.message if error.hint is None else f"{error.message}. {error.hint}"


def _written(error: ValidationError, data: Any) -> list[tuple[Keys, ErrorDetails]]:
    """The errors in what is written, each with its place; without those in defaults."""
    found = ((_place(detail, data), detail) for detail in error.errors(include_url=False))
    return [(keys, detail) for keys, detail in found if keys is not None]


def _place(detail: ErrorDetails, data: Any) -> Keys | None:
    """Where in `data` the error is, without pydantic's own labels (the branch of a union); None: in a default."""
    keys: Keys = ()
    inside = True
    for key in detail["loc"]:
        inside = holds(data, key)
        if inside:
            data, keys = data[key], (*keys, key)
    if inside or not isinstance(data, dict):
        return keys
    return (*keys, detail["loc"][-1]) if detail["type"] in ("missing", REFUSED) else None


def _said(keys: Keys, detail: ErrorDetails, known: Mapping[str, str]) -> str:
    kind, context, given = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == REFUSED:
        return str(context["said"])
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "extra_forbidden":
        return unknown(keys, list(known))
    if kind in _WANTED:
        limits = known.get(".".join(map(str, keys))) if kind.startswith(("greater", "less")) else None
        return f"must be {limits or _WANTED[kind].format(**context)}, got {_show(given)}{_hint(kind, given)}"
    if kind in ("literal_error", "enum"):
        best = closest(str(given), re.findall(r"'([^']*)'", str(context["expected"])))
        return f"must be {context['expected']}, got {_show(given)}" + (f". Did you mean {best!r}?" if best else "")
    said = re.sub(r"^(Value error|Assertion failed), ", "", detail["msg"])
    return said if isinstance(given, dict) else f"{said} (got {_show(given)})"


_PLAIN = {"missing": "is required", "json_invalid": "is nested too deeply"}
_WANTED = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    **dict.fromkeys(("int_type", "int_from_float"), "a whole number"),
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type"), "a section of 'key: value' lines"),
    "path_type": "a path",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "multiple_of": "a multiple of {multiple_of}",
}


def _show(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "a section" if isinstance(value, dict) else str(value)


def _hint(kind: str, given: Any) -> str:
    """What to type instead, where the mistake is a frequent one."""
    if isinstance(given, str) and kind.startswith("bool"):
        word = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(given.lower())
        return f". Write {word}." if word else ""
    if isinstance(given, str) and kind in ("list_type", "tuple_type"):
        return f". Write [{given}]."
    if isinstance(given, str) and kind in ("int_type", "float_type") and re.fullmatch(r"[-+.\deE]*\d", given):
        return ". Leave the quotes and leading zeros out."
    return ""


# -- which settings there are ------------------------------------------------------------------------------------


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """pydantic's JSON Schema of some settings; one that is a part of its own says "part": its kind.

    Raises:
        PluginError: a field's type has no JSON form, so that no recipe could hold it.
    """
    try:
        return model.model_json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise PluginError(f"settings {model.__name__} have a type that no recipe can hold: {error}") from error


@cache
def settings_of(model: type[BaseModel]) -> tuple[tuple[str, Schema, bool], ...]:
    """Every setting of `model`, nested ones too: dotted path, JSON Schema, and whether it is required."""
    schema = json_schema(model)
    return tuple(_settings(schema, schema.get("$defs", {}), ""))


def _settings(schema: Schema, definitions: Schema, prefix: str) -> Iterator[tuple[str, Schema, bool]]:
    for name, field in schema.get("properties", {}).items():
        branches = (field, *field.get("anyOf", ()))
        meant = [definitions.get(branch.get("$ref", "").rpartition("/")[2], {}) for branch in branches]
        section = next((one for one in meant if "properties" in one), None)
        if section is None or "anyOf" in field:
            yield prefix + name, field, name in schema.get("required", ())
        if section is not None:
            yield from _settings(section, definitions, f"{prefix}{name}.")


LIMITS = {
    "exclusiveMinimum": "more than {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "less than {}",
    "maximum": "at most {}",
}
"""JSON Schema's words for the limits of a number -> ours."""


def bounds(field: Schema, limits: Mapping[str, str] = LIMITS) -> str:
    """The limits of a setting: "more than 0 and at most 1"."""
    branches = (field, *field.get("anyOf", ()))
    found = (words.format(one[limit]) for one in branches for limit, words in limits.items() if limit in one)
    return " and ".join(found)


# -- what was probably meant -------------------------------------------------------------------------------------

OTHER_WORDS = {
    "lr": "training.agent_learning_rate", "learning_rate": "training.agent_learning_rate",
    "discount": "training.gamma", "mu": "training.margin", "eta": "training.entropy_weight",
    "entropy_coef": "training.entropy_weight", "value_coef": "training.value_weight", "grad_clip": "training.clip",
    "tau": "memory.threshold", "memory_size": "memory.capacity", "epochs": "run.episodes",
    "steps": "run.env_steps", "total_steps": "run.env_steps", "device": "run.device", "env": "environment",
    "encoder": "context_encoder", "retriever": "context_encoder", "retain": "retain_policy",
    "train": "training", "eval": "evaluation", "version": "schema",
}  # fmt: skip
"""Words that the paper or other libraries use -> where the setting is here."""


def unknown(keys: Keys, paths: Sequence[str]) -> str:
    """What to say about the unknown key at `keys`; `paths` are all keys, dotted, that this recipe could have."""
    around = "".join(f"{key}." for key in keys[:-1])
    inside = [path.removeprefix(around).partition(".")[0] for path in paths if path.startswith(around)]
    here = {name: around + name for name in inside}
    word = str(keys[-1]).lower().replace("-", "_")
    meant = _meant(word, here, paths)
    others = [name for name in here if name != "use"]
    if not meant and not others:
        return "unknown key; there are no settings here"
    said = f"Did you mean {' or '.join(meant)}?" if meant else f"Choose one of: {', '.join(others)}."
    sure = word in OTHER_WORDS or closest(word, [path.rpartition(".")[2] for path in meant], cutoff=0.75)
    return f"unknown key. {said}" + ("" if around or sure else " If a plugin offers it: is that plugin installed?")


def _meant(word: str, here: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """The same word here or elsewhere, another word for it, or a slip."""
    if word in here:
        return [here[word]]
    elsewhere = [path for path in paths if path.rpartition(".")[2] == word]
    if elsewhere:
        return sorted(elsewhere, key=lambda path: path.count("."))[:3]
    if word in OTHER_WORDS:
        return [OTHER_WORDS[word]]
    names = {path.rpartition(".")[2]: path for path in paths}
    for choices in (here, {name: path for name, path in names.items() if len(name) > 3}):
        if slip := closest(word, choices):
            return [choices[slip]]
    return []
