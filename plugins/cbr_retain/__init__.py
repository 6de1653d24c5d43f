"""Retain policies [P §3, App. D]."""

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
    registry.add(
        "needed",
        factory="cbr_retain.needed:Needed",
        config="cbr_retain.config:NeededConfig",
        summary="of the k most recent actions those that the reward needed; not in the paper",
        requires=(),
    )
    registry.add(
        "rewarded_only",
        factory="cbr_retain.policies:RewardedOnly",
        config="cbrcore.config:NoSettings",
        summary="the rewarded action alone [P App. D]",
        requires=(),
    )
    registry.add(
        "td_error",
        factory="cbr_retain.policies:TdError",
        config="cbr_retain.config:TdErrorConfig",
        summary="the rewarded action and k - 1 earlier ones drawn by their TD error [P App. D]",
        requires=(),
    )
