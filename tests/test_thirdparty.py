"""The sample third-party plugin fulfils the contract, by the suites that its author would use."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cbrcore.interfaces import Build
from cbrcore.plugins import load_plugins
from cbrcore.testing import AgentSuite, QuantizerSuite


def build_part(kind: str, name: str, build: Build) -> Any:
    """As a recipe would: by its registered name, with its default settings."""
    component = load_plugins(only=["acme_cbr"]).registry.find(kind, name)
    return component.load_factory()(component.load_config()(), build)


@pytest.mark.usefixtures("thirdparty")
class TestSign(QuantizerSuite):
    def make(self, build: Build) -> Any:
        return build_part("quantizer", "acme_cbr/sign", build)

    def test_similarity_is_the_share_of_equal_signs(self, build: Build):
        quantizer = self.make(build)
        contexts = torch.tensor([[1.0, -2.0, 3.0, 0.0], [-1.0, -2.0, 3.0, 4.0]])
        keys = quantizer.keys(contexts)
        assert keys.tolist() == [[1, -1, 1, 1], [-1, -1, 1, 1]]
        assert quantizer.similarity(contexts, keys.flip(0)).tolist() == [0.75, 0.75]


@pytest.mark.usefixtures("thirdparty")
class TestBag(AgentSuite):
    def make(self, build: Build) -> Any:
        return build_part("agent", "acme_cbr/bag", build)
