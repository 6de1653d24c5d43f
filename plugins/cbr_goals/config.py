"""Settings of the goal cases."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from cbrcore.config import ComponentConfig, MemoryConfig, NestedPart, Part, ReuseConfig

View = Literal["full", "head", "modifiers", "state"]
Level = Literal["easy", "medium", "hard"]


def _each_once(views: tuple[View, ...]) -> tuple[View, ...]:
    if len({*views}) < len(views):
        raise ValueError("name each view once")
    return views


class ViewsConfig(ComponentConfig):
    """By which words names are compared. The encoder and the kernel of a recipe have the same views."""

    first: Annotated[tuple[View, ...], AfterValidator(_each_once), Field(min_length=1)] = ("full",)
    """Views of the first entity's name: `full` the whole name, `head` its last word, `modifiers` all words before
    that, `state` the first word of several."""
    second: Annotated[tuple[View, ...], AfterValidator(_each_once)] = ("full",)
    """Views of the second entity's name; none: only the first entity counts."""


class NamesConfig(ViewsConfig):
    """A context is made of the names of an action's entities alone."""

    pair_feature: Annotated[Part | None, NestedPart("pair_feature")] = None
    """What the two names have to do with each other, as one number more."""


class KernelConfig(ViewsConfig):
    """k = exp(sum of theta (cos - 1)) over the views; name here those of the context encoder."""


class EvidenceConfig(MemoryConfig):
    """The memory of goal cases, what was tried, and the weights that are fitted to it."""

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    """tau: a case is retrieved if its relevance, p(goal), is strictly greater."""
    nu: Annotated[float, Field(ge=0)] = 2.0
    """Weight of what failed in the running episode."""


class ConceptNetConfig(ComponentConfig):
    """The benchmark's part of ConceptNet. The train folder's file alone is read: those of the folders in and out
    were made from the names in test games."""

    games_dir: str | None = None
    """The folder that holds easy/, medium/ and hard/, relative to the recipe; `~` and `$VARIABLE` are expanded.
    Left out: the folder twc/ in the folder that the environment variable CBR_GAMES names."""
    levels: Annotated[tuple[Level, ...], Field(min_length=1)] | None = None
    """Whose files are read. Left out: those of all levels that have one."""


class GoalsConfig(ReuseConfig):
    """Goals from cases, and the ways that lead there. Deviates from the paper in all of it."""

    own_choice: ClassVar[bool] = True

    retry_failed: bool = False
    """Try a pair again that failed earlier in the same episode."""
    retry_solved: bool = False
    """Move an object again whose goal was reached earlier in the same episode."""
    gamma: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """What a goal is still worth a move away."""
    unseen: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Value of an exit behind which nobody has been; 0: such exits are left to the agent."""
    explore: Annotated[float, Field(ge=0, le=1)] = 0.15
    """Share of the steps of the training that the agent takes, whatever the cases say."""
    random_plays: Annotated[int, Field(ge=0)] = 15
    """Plays at the start of the training that the agent takes alone."""
    remember_map: bool = False
    """Keep a map of each game over the episodes: ways that were gone, and where things were found. For games that
    begin in the same way each time."""


class FitConfig(ComponentConfig):
    """A learner around another one."""

    every: Annotated[int, Field(ge=1)] = 75
    """Game plays between two fits."""
    learner: Annotated[Part, NestedPart("learner")]
    """What trains the agent."""
