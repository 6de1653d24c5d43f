"""Iterative quantization: principal components, a learned rotation, the signs (Gong & Lazebnik, CVPR 2011)."""

from cbrcore import Registrar, hookimpl

cbr_api_version = 1


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "itq",
        factory="cbr_itq.quantizer:IterativeQuantizer",
        config="cbr_itq.config:IterativeQuantizerConfig",
        summary="binary codes by PCA and a learned rotation; similarity = share of equal bits (ITQ, 2011)",
        requires=("torch",),
    )
