"""The TPC agent: text and a commonsense graph [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "tpc",
        factory="cbr_tpc.agent:TpcAgent",
        config="cbr_tpc.config:TpcConfig",
        summary="text and a commonsense graph [P §6.1]",
        requires=("torch", "torch-geometric"),
    )
