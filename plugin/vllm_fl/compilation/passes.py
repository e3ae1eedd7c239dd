"""Passes over compiled models on a device that lacks vLLM's extension."""

from __future__ import annotations

import torch
from vllm.compilation.passes.pass_manager import PostGradPassManager
from vllm.compilation.passes.vllm_inductor_pass import VllmInductorPass
from vllm.config import VllmConfig


class NothingToUndo(VllmInductorPass):
    """In place of vLLM's last pass, which looks for in-place operators of its extension by name."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        """The plugin's operators write into nothing, so that no copy has to be taken back."""


class PassManagerFL(PostGradPassManager):
    """vLLM's passes without the one that needs its extension."""

    def configure(self, config: VllmConfig) -> None:
        super().configure(config)
        self.fix_functionalization = NothingToUndo(config)
