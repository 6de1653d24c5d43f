"""Settings of locality-sensitive hashing [P App. C]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore.config import ComponentConfig


class HashedContextConfig(ComponentConfig):
    """l hash tables, each with buckets by an h-bit code of hyperplanes."""

    tables: Annotated[int, Field(ge=1)] = 16
    """l: hash tables. More tables find more of the similar cases."""
    bits: Annotated[int, Field(ge=1, le=32)] = 8
    """h: hyperplanes per table. More bits make smaller buckets."""
    bucket_size: Annotated[int, Field(ge=1)] = 4
    """Most entries of a bucket that are looked at: its most recent ones."""
