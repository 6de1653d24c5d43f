"""Settings of a start from another run."""

from __future__ import annotations

from typing import Annotated

from cbrcore import ComponentConfig
from cbrcore.config import ExistingPath


class StartConfig(ComponentConfig):
    """A start from what another run has learned, as `cbr run --from` writes it."""

    file: Annotated[str, ExistingPath("cbr export RUN FILE.cbr")] | None = None
    """Start with the weights and the cases of this FILE.cbr, or of the run in this folder. Left out: with none."""
