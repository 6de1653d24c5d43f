"""The KG-A2C agent: text and the state graph [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "scorer",
        factory="cbr_kga2c.scorer:ScorerAgent",
        config="cbr_kga2c.config:ScorerConfig",
        summary="KG-A2C that scores the admissible commands: text and the state graph [P §6.1]",
        requires=("torch", "torch-geometric"),
    )
