"""Settings of every type that a recipe can hold, for tests of what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from cbrcore.config import ComponentConfig, Settings


class Inner(Settings):
    depth: int = 2
    """How deep."""


class Everything(ComponentConfig):
    needed: int
    """No default."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Between.

    Two paragraphs."""
    limit: Annotated[int, Field(ge=1)] | None = None
    kind: Literal["a", "b"] = "a"
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=3)] = ("x",)
    word: Annotated[str, Field(min_length=2, max_length=5)] = "word"
    even: Annotated[int, Field(multiple_of=2)] = 2
    folder: Path = Path("games")
    fresh: list[int] = Field(default_factory=list)
    table: dict[str, int] = Field(default={})
    flag: bool = False
    either: int | str = 1
    inner: Inner = Inner()
    maybe: Inner | None = None
