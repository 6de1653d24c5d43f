"""MLflow: rows, results and the recipe of a run, in files or on a tracking server."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_recorders(registry: Registrar) -> None:
    registry.add(
        "mlflow",
        factory="cbr_mlflow.recorder:MlflowRecorder",
        config="cbr_mlflow.config:MlflowConfig",
        summary="MLflow; files beside the run folder, or a tracking server",
        requires=("mlflow-skinny",),
    )
