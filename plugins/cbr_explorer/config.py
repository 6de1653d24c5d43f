"""Settings of the explorer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field, model_validator

from cbrcore.config import NestedPart, Part, ReuseConfig

Kind = Literal["room", "thing", "command", "sentence", "load", "view"]
Revision = Literal["shorten", "graft"]


class ExplorerConfig(ReuseConfig):
    """Return to a case, explore from there. Deviates from the paper in all of it; for games that begin in the
    same way each time."""

    needs_cases: ClassVar[bool] = False
    own_choice: ClassVar[bool] = True

    retrieval: Literal["score_novelty", "uniform", "last"] = "score_novelty"
    """Which case an episode starts from. `score_novelty`: drawn by its score, by the news that may lie ahead,
    and by how often it was chosen; `uniform`: all are equally likely; `last`: the one that was retained last."""
    revise: tuple[Revision, ...] = ("shorten", "graft")
    """How a case is revised before it is replayed: `shorten` leaves out commands, `graft` puts the detour to a
    reward in, which another case got."""
    revise_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Share of the episodes in which a case is revised."""
    news: tuple[Kind, ...] = ("room", "thing", "command", "sentence")
    """What counts as news beside a reward: a room, a thing carried, a command that is offered, a sentence of the
    answer, a set of things carried, a view, each for the first time."""
    score_decay: Annotated[float, Field(gt=0, le=1)] = 0.5
    """What a level of score weighs for each level above it, when one is drawn; besides, all weigh 1 together."""
    gamma: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """What news is still worth a command away."""
    stale: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """What a command is still worth in a view where it was tried, for each time."""
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of the explored steps that are drawn uniformly."""
    prior: Literal["counts", "agent"] = "counts"
    """Who acts where no command promises news of `plateau` or more: the explorer still, by its `counts`, or the
    `fallback`, then the agent."""
    plateau: Annotated[float, Field(ge=0)] = 0.05
    """The least news that keeps the explorer from asking the agent."""
    fallback: Annotated[Part | None, NestedPart("reuse_policy")] = None
    """The reuse policy that is asked before the agent is."""
    explore_steps: Annotated[int, Field(ge=0)] | None = None
    """So many steps of the training; then the best case is replayed alone. Left out: to the end."""

    def retries(self) -> bool | None:
        """The explorer's own `retry_failed` has no meaning; a fallback's has."""
        return cast(ReuseConfig, self.fallback.settings).retries() if self.fallback else None

    @model_validator(mode="after")
    def _asks_whom_it_names(self) -> ExplorerConfig:
        if self.fallback is not None and self.prior != "agent":
            raise ValueError("a fallback is asked only with 'prior: agent'")
        return self
