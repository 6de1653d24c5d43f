"""Random projections instead of vector quantization [P App. C]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "rp",
        factory="cbr_projection.quantizer:RandomProjection",
        config="cbr_projection.config:RandomProjectionConfig",
        summary="a fixed random projection of the context, cosine similarity [P App. C, RP]",
        requires=("torch",),
    )
    registry.add(
        "srp",
        factory="cbr_projection.quantizer:SignRandomProjection",
        config="cbr_projection.config:SignRandomProjectionConfig",
        summary="the signs of a fixed random projection; similarity = share of equal signs [P App. C, SRP]",
        requires=("torch",),
    )
