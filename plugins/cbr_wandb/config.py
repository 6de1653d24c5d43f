"""Settings of the W&B recorder."""

from typing import Annotated, Literal

from pydantic import Field

from cbrcore import ComponentConfig

Text = Annotated[str, Field(min_length=1)]


class WandbConfig(ComponentConfig):
    """`wandb`."""

    project: Text = "cbr"
    """The project that the run belongs to."""
    entity: Text | None = None
    """User or team; W&B's default for the account if left out."""
    group: Text | None = None
    """Runs of one group are shown together: the seeds of an experiment, say."""
    tags: tuple[Text, ...] = ()
    """Labels of the run."""
    mode: Literal["offline", "online", "disabled"] = "offline"
    """`offline` writes files that `wandb sync` uploads later; `online` uploads at once and needs `wandb login`;
    `disabled` does nothing."""
    directory: Text | None = None
    """Where W&B's folder `wandb` is made, relative to the recipe; the run folder if left out."""
