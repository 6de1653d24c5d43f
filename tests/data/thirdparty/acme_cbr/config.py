"""Settings of the sample plugin."""

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig


class SignConfig(ComponentConfig):
    """Settings of `SignQuantizer`."""

    slope: Annotated[float, Field(gt=0)] = 2.0
    """Steepness of the soft sign that carries the gradient."""


class BagConfig(ComponentConfig):
    """Settings of `BagAgent`."""

    buckets: Annotated[int, Field(ge=2, le=65536)] = 64
    """Words are hashed into so many buckets."""
