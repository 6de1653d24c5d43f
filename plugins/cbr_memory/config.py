"""Settings of the case memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbrcore import MemoryConfig


class CaseMemoryConfig(MemoryConfig):
    """The case memory and how it is asked [P §3, App. J]."""

    capacity: Annotated[int, Field(ge=1)] | None = None
    """Most cases kept; no limit if left out. With `outcome: both` the cases that failed have the same limit, for
    themselves."""
    eviction: Literal["oldest", "least_used", "least_successful"] = "oldest"
    """Which case leaves when the capacity is passed: by age, by use (rewards and reuses), or by success (the share
    of its reuses that was rewarded). Cases that failed are not reused, so of these the oldest one leaves."""
    neighbours: Annotated[int, Field(ge=1)] = 1
    """So many of the most similar cases of a context vote on the template, each with its relevance. 1: the most
    similar case decides, as in the paper."""
    outcome: Literal["rewarded", "both"] = "rewarded"
    """`both`: a reuse that earned nothing is kept as negative evidence; a candidate is dropped if a case that
    failed with its template is at least as similar. Meant for retain policies that keep rewarded actions only."""
