"""Somebody else's plugin: declares a quantizer and an agent, imports nothing heavy."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar

cbr_api_version = 1


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "sign",
        factory="acme_cbr.quantizer:SignQuantizer",
        config="acme_cbr.config:SignConfig",
        summary="sign bits of the context; similarity = share of equal signs",
        requires=("torch",),
    )


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "bag",
        factory="acme_cbr.agent:BagAgent",
        config="acme_cbr.config:BagConfig",
        summary="a bilinear policy over bags of words",
        requires=("torch",),
    )
