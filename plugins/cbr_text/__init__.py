"""The Text agent: a GRU policy over the observation [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "text",
        factory="cbr_text.agent:TextAgent",
        config="cbr_text.config:TextConfig",
        summary="a GRU policy over the observation text [P §6.1]",
        requires=("torch",),
    )
