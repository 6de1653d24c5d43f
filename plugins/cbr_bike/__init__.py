"""The BiKE agent: state graph and commonsense graph, each read in the light of the other [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "bike",
        factory="cbr_bike.agent:BikeAgent",
        config="cbr_bike.config:BikeConfig",
        summary="state graph and commonsense graph, each read in the light of the other [P §6.1]",
        requires=("torch", "torch-geometric"),
    )
