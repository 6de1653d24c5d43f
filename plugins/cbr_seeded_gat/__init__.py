"""The paper's context encoder: seeded graph attention [P §4.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_context_encoders(registry: Registrar) -> None:
    registry.add(
        "seeded_gat",
        factory="cbr_seeded_gat.encoder:SeededGat",
        config="cbr_seeded_gat.config:SeededGatConfig",
        summary="seeded graph attention over the state graph [P §4.1]",
        requires=("torch", "torch-geometric"),
    )
