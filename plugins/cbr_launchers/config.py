"""Settings of the launchers."""

from typing import Annotated, Literal

from pydantic import Field

from cbrcore import ComponentConfig


class RayConfig(ComponentConfig):
    """`ray`."""

    address: str = "local"
    """The cluster: `local` starts one on this machine for the sweep, `auto` takes the one that runs here, else
    `HOST:PORT` or `ray://HOST:PORT`."""
    cpus: Annotated[float, Field(gt=0)] = 1
    """CPU cores that a run asks for."""
    gpus: Annotated[float, Field(ge=0)] = 0
    """GPUs that a run asks for; 0.5 lets two runs share one. A run without any sees none."""
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory that a run asks for; not asked for if left out."""
    resources: dict[str, float] = Field(default_factory=dict)
    """The cluster's own resources that a run asks for, by name."""


class SubmititConfig(ComponentConfig):
    """`submitit`."""

    cluster: Literal["slurm", "local"] = "slurm"
    """`local` runs the jobs as processes on this machine, to try things out."""
    timeout_min: Annotated[int, Field(ge=1)] = 24 * 60
    """Minutes after which a job is ended. The run is continued when the sweep is repeated."""
    cpus: Annotated[int, Field(ge=1)] = 1
    """CPU cores per run."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs per run."""
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory per run; the cluster's default if left out."""
    slurm: dict[str, str | int] = Field(default_factory=dict)
    """Further settings of submitit's Slurm executor, without their prefix: partition, account, qos ..."""
