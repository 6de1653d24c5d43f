"""Settings of the Jericho environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cbrcore.config import ComponentConfig

LARGEST_SEED = 2**31 - 1


class JerichoConfig(ComponentConfig):
    """One game of Jericho [P §6.3]: collect points within 100 steps."""

    game: Annotated[str, Field(min_length=1)] = "zork1"
    """The game: a title that Jericho supports (`cbr games list`), or `generated` for a small treasure hunt that is
    made on the spot and needs no story file; figures from it compare with nothing in the paper."""
    rom_dir: str | None = None
    """The folder that holds the story files, relative to the recipe; `~` and `$VARIABLE` are expanded. Left out:
    the folder jericho/ in the folder that the environment variable CBR_GAMES names, then your own games folder."""
    seed: Literal["walkthrough", "run", "episode"] | Annotated[int, Field(ge=1, le=LARGEST_SEED)] = "walkthrough"
    """Chance inside the game. `walkthrough`: the seed for which the published walkthrough works, in every run, as
    the baselines do (a handicap). `run`: drawn from the run's seed. A number: that one. These are the same in
    every episode (protocol P1: the measure is the mean of the last training episodes). `episode`: each has its
    own (protocol P2: the measure is the evaluation, whose seeds were never trained on; `evaluation: {passes:
    100}`)."""
    max_steps: Annotated[int, Field(ge=1)] = 100
    """Commands per episode [P App. J]; then the episode is truncated."""
    graph: Literal["tree", "text"] = "tree"
    """State graph. `tree`: exact, from the game's own object tree (a handicap). `text`: what rules over a
    dependency parse find in the texts; needs a spaCy model."""
    tagger: Literal["dictionary", "spacy"] = "dictionary"
    """Which words of the texts are tried as objects: those that the game's dictionary marks as nouns or
    adjectives, or those that a spaCy model tags so (what Jericho does by itself; needs the model)."""
    step_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """A command that takes longer ends the episode as `engine_error`."""
    valid_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """A search for valid actions that takes longer is given up: look, inventory and the compass are offered."""
    max_faults: Annotated[int, Field(ge=1)] = 5
    """So many episodes in a row ended by the engine, or searches in a row given up, stop the run."""
    cache: bool = True
    """Keep valid actions on disk, for all runs, seeds and agents."""
    cache_key: Literal["state", "world", "view"] = "state"
    """When valid actions that were found are offered again. `state`: in exactly the same state of the game.
    `world`: also, within a run, where the same things are in the same places; much more often, but timers and
    chance are overlooked, so that now and then a valid action is missing. `view`: in the same room, with the same
    things around, in the same states; most often. Of these two every so many answers are compared with a search,
    and what was stale is told at the end. What is offered never depends on what the cache on disk holds."""
    search: Literal["full", "learned"] | None = None
    """`full`: every template is tried with all things in sight. `learned`: about things, or pairs of things, that
    were met in several remembered views (`cache_key`), commands that were never valid are tried less and less
    often, until a thing looks otherwise; some valid actions are found late, and the cache on disk is not used.
    Left out: `learned` with `cache_key: view`, else `full`."""
    transitions: Annotated[int, Field(ge=0)] = 50_000
    """So many results of commands are kept in memory, by the commands since the start: a way that was gone in this
    run is played again without the engine. Exact. 0, or a `seed` per episode: none."""
    interpreter: Literal["tuned", "installed"] = "tuned"
    """Which build of Jericho's interpreter plays. `tuned`: the one that `cbr games tune` made on this machine, if
    it was called; some 1.9 times as fast, with the same answers. `installed`: the one that came with Jericho."""
    allow_unknown_rom: bool = False
    """Accept a story file that Jericho does not know, as a path in `game`. There are no scores and no valid
    actions then: the fallback commands are offered."""
    deny: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Commands that are neither offered nor carried out, besides those that speak to the interpreter (save, quit,
    undo ...): a verb, or the beginning of a command."""

    @property
    def learns(self) -> bool:
        """Whether searches are learned."""
        return (self.search or ("learned" if self.cache_key == "view" else "full")) == "learned"

    @model_validator(mode="after")
    def _learns_from_what_is_remembered(self) -> JerichoConfig:
        if self.search == "learned" and self.cache_key == "state":
            raise ValueError("'search: learned' needs 'cache_key: view' (or world): it learns from these")
        return self

    def same_for_all_seeds(self) -> Iterable[str]:
        """What does not change with the run's seed (`cbr sweep` says so)."""
        if self.seed not in ("run", "episode"):
            yield f"the chance inside the game (environment.seed: {self.seed}; with `run` each draws its own)"

    def needs(self) -> Iterable[tuple[str, str]]:
        """What does not come with the package (`cbr recipes` says so)."""
        if self.game != "generated":
            yield "story file", self.game
        if self.tagger == "spacy" or self.graph == "text":
            yield "package", "spacy"
