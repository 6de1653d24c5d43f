"""Settings of iterative quantization."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbrcore import ComponentConfig


class IterativeQuantizerConfig(ComponentConfig):
    """Settings of `IterativeQuantizer`."""

    bits: Annotated[int, Field(ge=1)] = 32
    """c: bits of a code, at most as many as a context has dimensions."""
    iterations: Annotated[int, Field(ge=1)] = 50
    """Steps by which the rotation is learned; 50 in the paper."""
    window: Annotated[int, Field(ge=2)] = 1024
    """How many of the contexts that training saw last it is fitted on."""
    refit_every: Annotated[int, Field(ge=0)] = 512
    """It is fitted anew when training has shown it so many contexts since the last time; 0: never."""
    refit: Annotated[Literal["until_cases", "always"], Field()] = "until_cases"
    """until_cases: no longer once a key is stored, so that keys stay what they are. always: also later, for which
    `memory: {refresh: true}` has to make the keys of all cases anew."""
    slope: Annotated[float, Field(gt=0)] = 1.0
    """Steepness of the soft sign that carries the gradient, at the mean length of a projection."""
