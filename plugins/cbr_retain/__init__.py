"""Retain policies [P §3, App. E]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_retain_policies(registry: Registrar) -> None:
    registry.add(
        "last_k",
        factory="cbr_retain.policies:LastK",
        config="cbr_retain.config:LastKConfig",
        summary="the k most recent actions, the rewarded one included [P §3]",
        requires=(),
    )
