"""The pretraining of a run: collect experience, then train the retriever on pairs of it [P §5]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.experience import collect_experience
from cbr_pretrain.pairs import Experience, pretrain_retriever
from cbr_pretrain.retriever_file import load_retriever
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
            load_retriever(retriever, expand_path(config.retriever, scene.directory))
            return {"retriever": retriever.digest()}
        if not config.episodes:
            return None
        experience = self._collect(scene)
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
        return asdict(report)

    def _collect(self, scene: Scene) -> list[Experience]:
        passes, retriever = self.config.episodes, scene.player.retriever
        assert retriever is not None
        scene.phase("collecting experience (game plays)", passes * len(scene.environments[0].games("train")))
        found: list[Experience] = []
        for experience in collect_experience(
            scene.environments, retriever.encoder, passes=passes, seed=scene.streams.seed, clock=scene.clock
        ):
            found.extend(experience)
            scene.advance()
        return found
