"""Settings of the retain policies."""

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig


class LastKConfig(ComponentConfig):
    """`last_k` [P §3, App. J]."""

    k: Annotated[int, Field(ge=1)] = 1
    """Actions stored per reward, the rewarded one included; the paper takes 1 on TWC and 3 on Jericho."""
