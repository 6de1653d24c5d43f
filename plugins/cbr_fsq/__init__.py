"""Finite scalar quantization (Mentzer et al. 2023), beside the paper's vector quantization."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "fsq",
        factory="cbr_fsq.quantizer:FiniteScalarQuantizer",
        config="cbr_fsq.config:FiniteScalarQuantizerConfig",
        summary="finite scalar quantization: rounded projections, no codebook (not in the paper)",
        requires=("torch",),
    )
