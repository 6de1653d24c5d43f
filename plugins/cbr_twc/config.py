"""Settings of the TWC environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cbrcore.config import ComponentConfig

LEVELS = ("easy", "medium", "hard")


class TwcConfig(ComponentConfig):
    """TextWorld Commonsense [P §6.1]: tidy up a house within 50 steps."""

    source: Literal["published", "generate"] = "published"
    """`published`: the 45 games of the benchmark, from `games_dir`. `generate`: games made on the spot, of the
    same kind; figures from them do not compare with the paper's."""
    games_dir: str | None = None
    """The folder that holds easy/, medium/ and hard/, relative to the recipe; `~` and `$VARIABLE` are expanded.
    Left out: the folder twc/ in the folder that the environment variable CBR_GAMES names."""
    level: Literal["easy", "medium", "hard", "all"] = "easy"
    """Difficulty. The paper trains one agent per level, and for its Fig. 5 one on the games of `all` of them."""
    train_level: Literal["easy", "medium", "hard", "all"] | None = None
    """Whose games are trained on, where these are not those of `level`; all other splits are those of `level`."""
    max_steps: Annotated[int, Field(ge=1)] = 50
    """Commands per episode [P App. J]; then the episode is truncated."""
    graph: Literal["evolve", "full"] = "evolve"
    """State graph: `evolve` holds what the player has seen so far, `full` everything that is true (a handicap)."""
    drop_commands: tuple[Literal["close", "drop", "examine", "look"], ...] = ()
    """Commands left out of the admissible ones, by verb, e.g. [examine, look] (a handicap; the paper has none)."""
    games_per_split: Annotated[int, Field(ge=1, le=1000)] = 5
    """How many games to generate for each split; `source: generate` only."""
    houses: Annotated[int, Field(ge=0, le=1000)] = 0
    """How many generated games to train on besides the published ones, for each level that is trained on."""
    leave_out: Literal["heads"] | None = None
    """Objects that do not occur in the `houses`. `heads`: those whose head noun, the last word of the name, is
    that of an object in a game of any split but `train`; the results name them."""
    generation_seed: Annotated[int, Field(ge=0)] = 0
    """The generated games depend on this seed alone, not on the run's."""
    verify: Literal["never", "first", "always"] = "first"
    """Commands are answered without running the game, about a hundred times faster. That the game gives the same
    answers is checked in the `first` episode of each game, `always` (slow; for new games) or `never`."""

    def levels(self, split: str) -> tuple[str, ...]:
        """The levels whose games a split has."""
        level = self.train_level if split == "train" and self.train_level is not None else self.level
        return LEVELS if level == "all" else (level,)

    @model_validator(mode="after")
    def _houses_stand_beside_published_games(self) -> TwcConfig:
        if self.houses and self.source == "generate":
            raise ValueError("source 'generate' has no use for 'houses'; leave it out, or raise 'games_per_split'")
        if self.games_dir is not None and self.source == "generate":
            raise ValueError("source 'generate' has no use for 'games_dir'; leave it out, or set it to null")
        if self.leave_out and not self.houses:
            raise ValueError("'leave_out' is about 'houses', and there are none; set 'houses', or leave it out")
        return self

    def same_for_all_seeds(self) -> Iterable[str]:
        """What does not change with the run's seed (`cbr sweep` says so)."""
        if self.source == "generate" or self.houses:
            yield f"the generated games (environment.generation_seed: {self.generation_seed})"

    def needs(self) -> Iterable[tuple[str, str]]:
        """What does not come with the package (`cbr recipes` says so)."""
        if self.source == "published":
            yield "games folder", ""
