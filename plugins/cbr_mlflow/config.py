"""Settings of the MLflow recorder."""

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig

Text = Annotated[str, Field(min_length=1)]


class MlflowConfig(ComponentConfig):
    """`mlflow`."""

    tracking_uri: Text | None = None
    """A folder, relative to the recipe, or what MLflow takes: `http://HOST:PORT`, `sqlite:////path/mlflow.db` ...
    If left out, the folder `mlruns` beside the run folder."""
    experiment: Text = "cbr"
    """The experiment that the run belongs to; made if there is none of that name."""
    run_name: Text | None = None
    """What the run is called; the name of its folder if left out."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Tags of the run."""
