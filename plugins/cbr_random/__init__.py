"""The random agent; with case-based reasoning it is the paper's CBR-only [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "random",
        factory="cbr_random.agent:RandomAgent",
        config="cbrcore.config:NoSettings",
        summary="uniform over the admissible actions; with CBR this is the paper's CBR-only [P §6.1]",
        requires=("torch",),
    )
