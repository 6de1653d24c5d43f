"""Launchers: where the runs of a sweep execute."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_launchers(registry: Registrar) -> None:
    registry.add(
        "local",
        factory="cbr_launchers.local:LocalLauncher",
        config="cbrcore.config:NoSettings",
        summary="processes on this machine",
        requires=(),
    )
    registry.add(
        "ray",
        factory="cbr_launchers.on_ray:RayLauncher",
        config="cbr_launchers.config:RayConfig",
        summary="a Ray cluster: one that runs already, or a local one for the sweep",
        requires=("ray",),
    )
    registry.add(
        "submitit",
        factory="cbr_launchers.on_slurm:SubmititLauncher",
        config="cbr_launchers.config:SubmititConfig",
        summary="jobs of a Slurm cluster, by submitit",
        requires=("submitit",),
    )
