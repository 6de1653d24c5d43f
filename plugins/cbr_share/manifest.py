"""What a FILE.cbr holds: a zip, stored, with a manifest that names each member, its size and its checksum."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbrcore.errors import CbrError
from cbrcore.runs.files import sha256_of

SCHEMA: Literal[1] = 1
SUFFIX = ".cbr"
MANIFEST_FILE = "manifest.json"
KINDS = (".json", ".jsonl", ".yaml", ".safetensors")
"""Endings of members: nothing that could run code is written or read."""
MOST_BYTES = {".safetensors": 8 << 30, MANIFEST_FILE: 4 << 20}
"""Ending, or name -> so large a member may be."""
MOST_BYTES_OF_TEXT = 512 << 20
"""The same for all other members."""
NAME = re.compile(r"[\w+-][\w.+-]*(/[\w+-][\w.+-]*)*", re.ASCII)
"""A member's name: parts that begin with no dot, so none that leads out of a folder."""
MAKE_ANEW = "take another copy of the file, or make it anew: cbr export RUN FILE.cbr"


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Member(_Checked):
    """Size and checksum of a member."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, path: Path) -> Member:
        """Those of a file."""
        return cls(bytes=path.stat().st_size, sha256=sha256_of(path))


class Manifest(_Checked):
    """The manifest.

    Attributes:
        cbr: the version that wrote it.
        name: of the recipe.
        plugins: what the recipe needs -> the distribution it came from.
        plugin_files: loose files that it needs, by name -> sha256; the files themselves are not in it.
        members: all but the manifest.
    """

    schema_version: Literal[1] = Field(alias="schema")
    cbr: str
    name: Annotated[str, Field(max_length=100, pattern=r"^\w[\w .,+=()@-]*$")]
    plugins: Mapping[str, str]
    plugin_files: Mapping[str, str]
    members: Mapping[str, Member]

    def text(self) -> str:
        """As it is written."""
        return json.dumps(self.model_dump(by_alias=True), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def read_manifest(text: bytes, file: Path) -> Manifest:
    """The manifest of a file.

    Raises:
        CbrError: it is damaged, or of a schema that this version does not read.
    """
    try:
        data: Any = json.loads(text.decode())
        schema = data["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CbrError(f"{file}: {MANIFEST_FILE} is damaged ({error})", hint=MAKE_ANEW) from error
    if schema != SCHEMA or isinstance(schema, bool):
        told = f"{file}: {MANIFEST_FILE}: schema {schema!r} is not known; this version reads schema {SCHEMA}"
        raise CbrError(told, hint="pip install -U cbr-textrl")
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CbrError(f"{file}: {MANIFEST_FILE}: {where}: {first['msg']}", hint=MAKE_ANEW) from error


def most_bytes(member: str) -> int:
    """How large a member of this name may be."""
    return MOST_BYTES.get(member) or MOST_BYTES.get(Path(member).suffix) or MOST_BYTES_OF_TEXT
