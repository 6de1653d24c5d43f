"""The pretraining of a run: collect experience, then train the retriever on pairs of it [P §5]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.experience import PlayCount, collect_experience
from cbr_pretrain.pairs import Experience, pretrain_retriever
from cbr_pretrain.retriever_file import load_retriever, played_before
from cbrcore.config import expand_path
from cbrcore.interfaces import Build, Scene


class ContrastivePretraining:
    """Experience of a uniform random agent, and a contrastive loss; or a retriever that was trained before."""

    def __init__(self, config: PretrainConfig, build: Build) -> None:
        self.config = config

    def __repr__(self) -> str:
        return f"ContrastivePretraining(episodes={self.config.episodes}, retriever={self.config.retriever!r})"

    def run(self, scene: Scene) -> Mapping[str, Any] | None:
        """Train, or load, the retriever; what came of it. None if there is nothing to train, or nothing to do.

        Raises:
            RunFolderError: the given retriever is not there, or belongs to other settings.
            Interrupted: the user stopped it.
        """
        config, retriever = self.config, scene.player.retriever
        if retriever is None:
            return None
        if config.retriever is not None:
            folder = expand_path(config.retriever, scene.directory)
            load_retriever(retriever, folder)
            return {"retriever": retriever.digest(), **played_before(folder)}
        if not config.episodes:
            return None
        count = PlayCount()
        experience = self._collect(scene, count)
        scene.phase("pretraining the retriever (epochs)", config.epochs)
        report = pretrain_retriever(
            retriever,
            experience,
            config,
            margin=scene.training.margin,
            clip=scene.training.clip,
            streams=scene.streams,
            progress=lambda done, total: scene.advance(),
        )
        return asdict(report) | asdict(count)

    def _collect(self, scene: Scene, count: PlayCount) -> list[Experience]:
        passes, retriever = self.config.episodes, scene.player.retriever
        assert retriever is not None
        scene.phase("collecting experience (game plays)", passes * len(scene.environments[0].games("train")))
        found: list[Experience] = []
        for experience in collect_experience(
            scene.environments,
            retriever.encoder,
            passes=passes,
            seed=scene.streams.seed,
            clock=scene.clock,
            count=count,
        ):
            found.extend(experience)
            scene.advance()
        return found
