"""Settings of the retain policies."""

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig


class LastKConfig(ComponentConfig):
    """`last_k` [P §3, App. J]."""

    k: Annotated[int, Field(ge=1)] = 1
    """Actions stored per reward, the rewarded one included; the paper takes 1 on TWC and 3 on Jericho."""


class TdErrorConfig(ComponentConfig):
    """`td_error` [P App. D]; the paper tries it on Jericho only."""

    k: Annotated[int, Field(ge=1)] = 3
    """Actions stored per reward, the rewarded one included; 3 in the paper's ablation."""


class NeededConfig(ComponentConfig):
    """`needed`: not in the paper."""

    k: Annotated[int, Field(ge=1)] = 3
    """How far back it looks: only the last k actions, the rewarded one included, can be stored."""
