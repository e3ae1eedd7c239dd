"""The compiler's passes run without vLLM's extension. No rung: graphs of torch operators only."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from vllm.compilation.passes.pass_manager import PostGradPassManager
from vllm.config import VllmConfig
from vllm_fl.compilation.passes import PassManagerFL


@pytest.fixture
def graph() -> torch.fx.Graph:
    return make_fx(lambda x: (x + 1).relu())(torch.zeros(3)).graph


def configured(manager: PostGradPassManager) -> PostGradPassManager:
    config = VllmConfig()
    passes = config.compilation_config.pass_config
    passes.fuse_norm_quant = passes.fuse_act_quant = False
    manager.configure(config)
    return manager


def test_the_last_pass_leaves_a_graph_as_it_is(graph: torch.fx.Graph) -> None:
    before = [node.name for node in graph.nodes]
    configured(PassManagerFL()).fix_functionalization(graph)
    assert [node.name for node in graph.nodes] == before


def test_vllms_own_last_pass_still_needs_its_extension(graph: torch.fx.Graph) -> None:
    with pytest.raises(AttributeError, match="rotary_embedding"):
        configured(PostGradPassManager()).fix_functionalization(graph)
