"""The hooks a plugin may implement: one for each kind of thing it can offer. Declare; do not build.

Each hook receives a `Registrar` and calls ``registry.add(name, factory="package.module:object", summary=...)``
with import paths as strings, so that loading a plugin imports nothing heavy. A *kind* is called as its hook says
(`cbrcore.registry.KINDS`): ``register_retain_policies`` offers things of the kind "retain_policy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from cbrcore.registry import Registrar

PROJECT = "cbrcore"
API_VERSION = 1
"""A plugin may state ``cbr_api_version = 1``; another number is refused."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


# -- parts of a recipe: the factory is called as factory(config, build) ------------------------------------------


@hookspec
def register_environments(registry: Registrar) -> None:
    """Offer environments (`cbrcore.interfaces.Environment`): families of text games."""


@hookspec
def register_text_encoders(registry: Registrar) -> None:
    """Offer frozen text encoders (`cbrcore.interfaces.TextEncoder`)."""


@hookspec
def register_context_encoders(registry: Registrar) -> None:
    """Offer context encoders (`cbrcore.interfaces.ContextEncoder`)."""


@hookspec
def register_pair_features(registry: Registrar) -> None:
    """Offer pair features (`cbrcore.interfaces.PairFeature`): parts within other parts."""


@hookspec
def register_quantizers(registry: Registrar) -> None:
    """Offer quantizers (`cbrcore.interfaces.Quantizer`)."""


@hookspec
def register_memories(registry: Registrar) -> None:
    """Offer case memories (`cbrcore.interfaces.Memory`): what keeps cases and finds them again."""


@hookspec
def register_reuse_policies(registry: Registrar) -> None:
    """Offer reuse policies (`cbrcore.interfaces.ReusePolicy`): what is done with retrieved cases."""


@hookspec
def register_retain_policies(registry: Registrar) -> None:
    """Offer retain policies (`cbrcore.interfaces.RetainPolicy`)."""


@hookspec
def register_agents(registry: Registrar) -> None:
    """Offer neural agents (`cbrcore.interfaces.NeuralAgent`)."""


@hookspec
def register_learners(registry: Registrar) -> None:
    """Offer learners (`cbrcore.interfaces.Learner`): what turns transitions into updates."""


@hookspec
def register_pretrainings(registry: Registrar) -> None:
    """Offer pretrainings (`cbrcore.interfaces.Pretraining`): what a retriever learns before the first play."""


@hookspec
def register_recorders(registry: Registrar) -> None:
    """Offer recorders (`cbrcore.interfaces.Recorder`): who is told each metrics row and the results."""


@hookspec
def register_launchers(registry: Registrar) -> None:
    """Offer launchers (`cbrcore.interfaces.Launcher`): where the runs of a sweep execute."""


# -- around the recipe: what the factory is stands in each hook --------------------------------------------------


@hookspec
def register_recipe_sections(registry: Registrar) -> None:
    """Offer top-level recipe keys. The name is the key; the factory is the settings class of what stands below it:
    a pydantic model, as a rule a `cbrcore.config.Settings`. It may check itself against the whole recipe
    (`cbrcore.interfaces.ChecksRecipe`) and say what ``cbr check`` prints of it (`HasOverview`)."""


@hookspec
def register_commands(registry: Registrar) -> None:
    """Offer commands: ``cbr NAME``. The factory is a function as Typer takes it, or a ``typer.Typer``."""


@hookspec
def register_checks(registry: Registrar) -> None:
    """Offer checks for ``cbr doctor``. The factory is called as ``factory(quick=...)`` and gives
    `cbrcore.interfaces.Finding`, each with how to mend it."""


@hookspec
def register_report_sections(registry: Registrar) -> None:
    """Offer sections of ``cbr report``. The factory is called as ``factory(runs)`` with all
    `cbrcore.interfaces.ReportedRun` and gives a `cbrcore.interfaces.Section`, or None if it has nothing to say."""
