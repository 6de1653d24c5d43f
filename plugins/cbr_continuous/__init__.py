"""No quantization: the continuous context is the key [P App. C, "w/o VQ"]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "continuous",
        factory="cbr_continuous.quantizer:ContinuousContext",
        config="cbr_continuous.config:ContinuousContextConfig",
        summary="no quantization: the context itself, cosine similarity [P App. C, w/o VQ]",
        requires=("torch",),
    )
