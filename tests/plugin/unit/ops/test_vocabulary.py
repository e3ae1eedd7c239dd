"""vLLM's vocabulary-parallel embedding needs no replacement: its only obstacle was the compiler. Rung 1."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

VOCABULARY, HIDDEN = 65, 8


def embed_shard(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    from vllm.config import CompilationConfig, CompilationMode, VllmConfig, set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    compilation = CompilationConfig(mode=CompilationMode.NONE, custom_ops=["all"])
    with set_current_vllm_config(VllmConfig(compilation_config=compilation)):
        parallel_state.init_distributed_environment(world, rank, f"file://{folder}/store", rank, "gloo")
        parallel_state.initialize_model_parallel(world)
        layer = VocabParallelEmbedding(VOCABULARY, HIDDEN, params_dtype=torch.float32)
        whole = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(1))
        layer.weight_loader(layer.weight, whole)
        ids = torch.tensor([0, 31, 32, 33, 64, 63, 0, 5])
        assert torch.equal(layer(ids), whole[ids])
        assert layer.weight.shape[0] == 128 // world
        assert layer(ids[:0]).shape == (0, HIDDEN)
        parallel_state.destroy_model_parallel()
        parallel_state.destroy_distributed_environment()


@pytest.mark.parametrize("world", [1, 2])
def test_B83_rows_of_all_ranks_are_found_without_a_compiler(
    world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    torch.multiprocessing.start_processes(
        embed_shard, (world, str(tmp_path)), nprocs=world, start_method="fork"
    )


def test_B83_the_functions_vllm_compiles_run_eagerly() -> None:
    from vllm.platforms import current_platform

    assert current_platform.simple_compile_backend == "eager"
    from vllm.model_executor.layers import vocab_parallel_embedding

    masked, outside = vocab_parallel_embedding.get_masked_input_and_mask(
        torch.tensor([0, 31, 32, 64]), 32, 64, 0, 64, 64
    )
    assert outside.tolist() == [True, True, False, True]
    assert masked[2] == 0
