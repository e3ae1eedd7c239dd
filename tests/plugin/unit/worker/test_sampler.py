from __future__ import annotations

import pytest
import torch
from vllm_fl.worker.sampler import TorchTopKTopPSampler


@pytest.mark.parametrize("batch", [1, 7, 8, 16])
def test_B32_B33_top_k_and_top_p_take_the_torch_path_for_every_batch(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm.v1.sample.ops.topk_topp_sampler as module

    monkeypatch.setattr(module, "HAS_TRITON", True)
    monkeypatch.setattr(module, "apply_top_k_top_p_triton", None, raising=False)
    torch.manual_seed(0)
    logits = torch.randn(batch, 50)
    best = {row: set(logits[row].topk(3).indices.tolist()) for row in range(batch)}
    k, p = torch.full((batch,), 3), torch.full((batch,), 0.999)
    for _ in range(20):
        sampled, _ = TorchTopKTopPSampler().forward(logits.clone(), {}, k, p)
        assert all(token in best[row] for row, token in enumerate(sampled.tolist()))


def test_B24_seeded_sampling_follows_the_filtered_distribution() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).repeat(4000, 1)
    torch.manual_seed(1)
    sampled, _ = TorchTopKTopPSampler().forward(logits.clone(), {}, None, torch.full((4000,), 0.9))
    share = torch.bincount(sampled, minlength=4) / 4000
    kept = torch.softmax(logits[0, :3], 0)  # 0.64 + 0.24 + 0.09 is the first sum past 0.9
    torch.testing.assert_close(share[:3], kept, atol=0.03, rtol=0)
    assert share[3] == 0


@pytest.mark.parametrize("mode", ["processed_logits", "processed_logprobs"])
def test_processed_values_are_those_after_the_filter(mode: str) -> None:
    sampler = TorchTopKTopPSampler(mode)
    _, processed = sampler.forward(torch.tensor([[1.0, 2.0, 3.0]]), {}, torch.tensor([1]), None)
    assert processed.isinf().tolist() == [[True, True, False]]
