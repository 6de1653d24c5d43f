"""pydantic in plain words: what is wrong with settings, and what settings a component has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import ErrorDetails

from cbrcore.config import Part
from cbrcore.errors import PluginError, closest
from cbrcore.yamltext import Keys

Model = TypeVar("Model", bound=BaseModel)

REQUIRED = "required"
COMPUTED = "computed"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with some settings: where, pydantic's name for it, and our words."""

    keys: Keys
    kind: str
    message: str


@dataclass(frozen=True)
class Setting:
    """One setting of a component, in words; `default` is JSON, or `REQUIRED`, or `COMPUTED`."""

    path: str
    type: str
    default: str
    bounds: str
    description: str


def check(
    model: type[Model], data: Mapping[str, Any], parts: Mapping[str, Part | None] | None = None
) -> tuple[Model | None, list[Fault]]:
    """The settings that `data` means, or everything that is wrong with it.

    Strict: text is no number and 1 is no boolean, but a list gives a tuple and text gives a path or an enum
    (pydantic's JSON mode).

    Args:
        parts: what the settings that are parts of their own were found to mean.
    """
    try:
        return model.model_validate_json(json.dumps(data), strict=True, context=parts), []
    except ValidationError as error:
        faults = _faults(error, model, data)
    if faults:
        return None, faults
    try:
        return model.model_validate(data, context=parts), []
    except ValidationError as error:
        return None, _faults(error, model, data)


def _faults(error: ValidationError, model: type[BaseModel], data: Mapping[str, Any]) -> list[Fault]:
    """The faults of what is written; pydantic's JSON mode also complains about defaults such as a `Path`."""
    details = [detail for detail in error.errors(include_url=False) if not _is_of_default(detail, data)]
    bounds = {setting.path: setting.bounds for setting in describe(model)} if details else {}
    return [_fault(detail, data, bounds) for detail in details]


def _is_of_default(detail: ErrorDetails, data: Any) -> bool:
    for key in detail["loc"]:
        if isinstance(data, dict):
            if key not in data:
                return detail["type"] != "missing"
            data = data[key]
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
    return False


def describe(model: type[BaseModel]) -> list[Setting]:
    """Every setting of `model`; nested ones by dotted path.

    Raises:
        PluginError: a field's type has no JSON form, so that no recipe could hold it.
    """
    try:
        schema = model.model_json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise PluginError(f"settings {model.__name__} have a type that no recipe can hold: {error}") from error
    return list(_settings(schema, schema.get("$defs", {}), ""))


def _fault(detail: ErrorDetails, data: Any, bounds: Mapping[str, str]) -> Fault:
    kind, context, given = detail["type"], detail.get("ctx", {}), detail["input"]
    keys = _real_keys(detail["loc"], data, missing=kind == "missing")
    if kind == "missing":
        return Fault(keys, kind, "is required")
    if kind in _BOUND_ERRORS:
        said = bounds.get(".".join(map(str, keys))) or _BOUND_ERRORS[kind].format(**context)
        return Fault(keys, kind, f"must be {said}, got {_show(given)}")
    if kind in _WANTED:
        return Fault(
            keys, kind, f"must be {_WANTED[kind].format(**context)}, got {_show(given)}{_hint(kind, given)}"
        )
    if kind in ("literal_error", "enum"):
        return Fault(keys, kind, _not_one_of(str(context["expected"]), given))
    said = re.sub(r"^(Value error|Assertion failed), ", "", detail["msg"])
    return Fault(keys, kind, said if isinstance(given, dict) else f"{said} (got {_show(given)})")


def _real_keys(location: Keys, data: Any, *, missing: bool) -> Keys:
    """`location` without pydantic's own labels (the branch of a union), which are no keys of the data."""
    keys: list[str | int] = []
    for key in location:
        inside = isinstance(data, list) and isinstance(key, int) and key < len(data)
        if inside or (isinstance(data, dict) and key in data):
            data = data[key]
            keys.append(key)
    return (*keys, location[-1]) if missing else tuple(keys)


_BOUND_ERRORS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
_WANTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a section of 'key: value' lines",
    "model_type": "a section of 'key: value' lines",
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


def _not_one_of(expected: str, given: Any) -> str:
    best = closest(str(given), re.findall(r"'([^']*)'", expected))
    return f"must be {expected}, got {_show(given)}" + (f". Did you mean {best!r}?" if best else "")


Schema = Mapping[str, Any]


def _settings(schema: Schema, definitions: Schema, prefix: str) -> Iterator[Setting]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        nested = _nested(field, definitions)
        if nested is None or "anyOf" in field:
            unset = REQUIRED if name in required else COMPUTED
            default = json.dumps(field["default"]) if "default" in field else unset
            said = field.get("description", "")
            yield Setting(
                prefix + name, _type(field, definitions), default, _bounds(field), " ".join(said.split())
            )
        if nested is not None:
            yield from _settings(nested, definitions, f"{prefix}{name}.")


def _nested(field: Schema, definitions: Schema) -> Schema | None:
    """The schema of the section that `field` is, or None."""
    for branch in (field, *field.get("anyOf", ())):
        target: Schema = definitions.get(branch.get("$ref", "").rpartition("/")[2], {})
        if "properties" in target:
            return target
    return None


_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


def _type(field: Schema, definitions: Schema) -> str:
    if "$ref" in field:
        return _type(definitions[field["$ref"].rpartition("/")[2]], definitions)
    if "enum" in field or "const" in field:
        return " | ".join(str(choice) for choice in field.get("enum", [field.get("const")]))
    if "part" in field:
        return f"part ({field['part']})"
    if "anyOf" in field:
        return " or ".join(_type(branch, definitions) for branch in field["anyOf"])
    kind = field.get("type")
    if kind == "array":
        return f"list of {_type(field['items'], definitions)}" if isinstance(field.get("items"), dict) else "list"
    if kind == "object":
        return "section"
    if kind == "string":
        return "path" if field.get("format") == "path" else "text"
    return _TYPES.get(str(kind), "anything")


_LIMITS = {
    "exclusiveMinimum": "more than {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "less than {}",
    "maximum": "at most {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "pattern": "of the form {}",
}


def _bounds(field: Schema) -> str:
    """The limits in words: "more than 0 and at most 1"."""
    branches = (field, *field.get("anyOf", ()))
    return " and ".join(
        words.format(branch[limit]) for branch in branches for limit, words in _LIMITS.items() if limit in branch
    )
