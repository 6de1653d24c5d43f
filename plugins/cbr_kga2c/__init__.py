"""The KG-A2C agent: text and the state graph [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "kga2c",
        factory="cbr_kga2c.agent:Kga2cAgent",
        config="cbr_kga2c.config:Kga2cConfig",
        summary="text and the state graph [P §6.1]",
        requires=("torch", "torch-geometric"),
    )
