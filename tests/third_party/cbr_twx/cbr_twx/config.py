"""Settings of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from cbrcore import ComponentConfig
from pydantic import Field, model_validator

Game = Literal["arithmetic", "coin", "cookingworld", "mapreader", "peckingorder", "simonsays", "sorting", "twc"]

_ROOMS = {"includeDoors": (0, 1), "limitInventorySize": (0, 1)}
PARAMETERS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "arithmetic": {},
    "coin": {"numLocations": (1, 11), "numDistractorItems": (0, 10), **_ROOMS},
    "cookingworld": {"numLocations": (1, 11), "numIngredients": (1, 5), "numDistractorItems": (0, 10), **_ROOMS},
    "mapreader": {
        "numLocations": (1, 50),
        "maxDistanceApart": (1, 8),
        "maxDistractorItemsPerLocation": (0, 3),
        **_ROOMS,
    },
    "peckingorder": {},
    "simonsays": {"gameLength": (1, 1000), "numDistractors": (0, 5), "memorization": (0, 1), "verbose": (0, 1)},
    "sorting": {},
    "twc": {"numLocations": (1, 3), "numItemsToPutAway": (1, 4), **_ROOMS},
}
"""game -> parameter -> its least and greatest value, as TextWorldExpress 1.1 documents them; of numItemsToPutAway
it says 10, and takes 4"""


class TwxConfig(ComponentConfig):
    """Games of one kind, each made from its seed."""

    game: Game = "coin"
    """Which kind of game, by TextWorldExpress's name."""
    parameters: dict[str, int] = Field(default_factory=dict)
    """How the games are made, as in {numLocations: 5}; what is left out is as TextWorldExpress has it."""
    games_per_split: Annotated[int, Field(ge=1, le=500)] = 5
    """How many games each split has: the first ones of its fold."""
    in_fold: Literal["dev", "train"] = "dev"
    """Where the games of split `in` come from. `dev`: TextWorldExpress's own fold, whose objects are new in `twc`
    as those of `test` are. `train`: further games of the training fold, with its objects."""
    max_steps: Annotated[int, Field(ge=1)] = 50
    """Commands per episode; then it is truncated."""

    @model_validator(mode="after")
    def _parameters_are_those_of_the_game(self) -> TwxConfig:
        known = PARAMETERS[self.game]
        for name, value in self.parameters.items():
            if name not in known:
                there = ", ".join(sorted(known)) or "none"
                raise ValueError(f"{self.game!r} has no parameter {name!r}; it has: {there}")
            least, greatest = known[name]
            if not least <= value <= greatest:
                raise ValueError(f"{name!r} of {self.game!r} is {value}; write {least} to {greatest}")
        return self

    def parameter_text(self) -> str:
        """As TextWorldExpress takes them."""
        return ",".join(f"{name}={value}" for name, value in sorted(self.parameters.items()))
