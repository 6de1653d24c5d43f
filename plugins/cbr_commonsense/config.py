"""Where an agent's commonsense comes from: the section ``commonsense:`` in its settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cbrcore.config import ExistingPath, Settings

USES = {
    "conceptnet": ("path", "evolve"),
    "embedded": ("evolve",),
    "manual": ("path", "detail"),
    "nearest": ("threshold",),
    "none": (),
}
"""source -> the settings that mean something to it."""


GET = "Take $CBR_GAMES/twc, the TWC benchmark (github.com/IBM/commonsense-rl), or 'source: embedded'"


class CommonsenseConfig(Settings):
    """The commonsense graph. Its source decides what a result means: it is noted among the handicaps."""

    source: Literal["conceptnet", "embedded", "manual", "nearest", "none"]
    """`conceptnet`: the TWC benchmark's part of ConceptNet, as in the paper. `embedded`: some 900 everyday triples
    of this package, by hand. `manual`: the benchmark's graphs by hand (an oracle: who wrote them knew the goals).
    `nearest`: things whose names the text encoder finds similar. `none`: an empty graph."""
    path: Annotated[str, ExistingPath(GET)] | None = None
    """`conceptnet`: a file of triples, or a folder in which every conceptnet_subgraph.txt is read. `manual`: a
    folder with the .tsv files. Relative to the recipe; `~` and `$VARIABLE` are expanded."""
    detail: Literal["brief", "complete"] = "brief"
    """Which of the graphs by hand; `source: manual` only."""
    evolve: Literal["cdc", "dc"] = "cdc"
    """`dc` (direct connections): what was seen so far, linked as in the source. `cdc` (contextual ones): also each
    thing that can be put somewhere with the places for it at most two steps away in the source. `source:
    conceptnet` and `embedded` only."""
    threshold: Annotated[float, Field(gt=-1, lt=1)] = 0.5
    """Cosine similarity above which two names are linked; `source: nearest` only."""

    @model_validator(mode="after")
    def _settings_fit_source(self) -> CommonsenseConfig:
        if self.path is None and "path" in USES[self.source]:
            raise ValueError(f"source {self.source!r} needs a path, as in 'path: $CBR_GAMES/twc/easy'")
        for name, field in type(self).model_fields.items():
            if name not in ("source", *USES[self.source]) and getattr(self, name) != field.default:
                raise ValueError(f"source {self.source!r} has no use for {name!r}; leave it out")
        return self
