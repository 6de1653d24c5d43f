"""The paper's quantizer: KD codes [P §4.2]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "vq",
        factory="cbr_vq.quantizer:VectorQuantizer",
        config="cbr_vq.config:VectorQuantizerConfig",
        summary="KD codes by vector quantization; similarity = share of equal codes [P §4.2]",
        requires=("torch",),
    )
