"""From settings to a commonsense graph. Its files are read here, before any training."""

from __future__ import annotations

from pathlib import Path

from cbr_commonsense.config import CommonsenseConfig
from cbr_commonsense.files import conceptnet, household, manual
from cbr_commonsense.graphs import CommonsenseGraph, EvolvingGraph, ManualGraphs, NoCommonsense
from cbrcore.config import expand_path
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build


def build_commonsense(config: CommonsenseConfig, build: Build) -> CommonsenseGraph:
    """The source that `config` names.

    Raises:
        CbrError: a file is missing or damaged, or `nearest` has no text encoder.
    """
    contextual = config.evolve == "cdc"
    match config.source:
        case "conceptnet":
            name = "ConceptNet, the part that the TWC benchmark links to its games"
            return EvolvingGraph(conceptnet(_path(config, build)), contextual=contextual, name=name)
        case "manual":
            return ManualGraphs(manual(_path(config, build), config.detail), detail=config.detail)
        case "embedded":
            name = "household triples by hand (cbr_commonsense); their authors knew the games"
            return EvolvingGraph(household(), contextual=contextual, name=name)
        case "nearest":
            return _nearest(config, build)
        case "none":
            return NoCommonsense()


def _path(config: CommonsenseConfig, build: Build) -> Path:
    assert config.path is not None  # CommonsenseConfig sees to it
    return expand_path(config.path, build.recipe_dir)


def _nearest(config: CommonsenseConfig, build: Build) -> CommonsenseGraph:
    from cbr_commonsense.nearest import NearestNames

    if build.text_encoder is None:
        raise CbrError("source 'nearest' needs a text encoder", hint="add `text_encoder:` to the recipe")
    return NearestNames(build.text_encoder, threshold=config.threshold)
