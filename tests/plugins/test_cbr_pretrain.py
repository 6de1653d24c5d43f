"""The pretraining keeps the contract of its kind. What it learns: `tests/test_pretraining.py`."""

from __future__ import annotations

from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.contrastive import ContrastivePretraining
from cbrcore.interfaces import Build
from cbrcore.testing import PretrainingSuite


class TestContrastivePretraining(PretrainingSuite):
    def make(self, build: Build) -> ContrastivePretraining:
        return ContrastivePretraining(PretrainConfig(episodes=8, epochs=2), build)

    def test_without_experience_there_is_nothing_to_do(self, build: Build):
        assert ContrastivePretraining(PretrainConfig(episodes=0), build).run(self.scene(build)) is None
