from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from vllm_fl.worker.structured_outputs import TorchStructuredOutputsWorker

VOCABULARY = 70


def pack(allowed: list[set[int]]) -> np.ndarray:
    words = np.zeros((len(allowed), -(-VOCABULARY // 32)), dtype=np.uint32)
    for row, tokens in enumerate(allowed):
        for token in tokens:
            words[row, token // 32] |= np.uint32(1 << token % 32)
    return words.view(np.int32)


@pytest.fixture
def worker() -> TorchStructuredOutputsWorker:
    return object.__new__(TorchStructuredOutputsWorker)


def test_only_allowed_tokens_of_grammar_requests_survive(worker: TorchStructuredOutputsWorker) -> None:
    # "b" is still being prefilled and has no logits, "c" has no grammar.
    batch = SimpleNamespace(req_ids=["a", "b", "c", "d"], cu_num_logits_np=np.array([0, 1, 1, 2, 3]))
    logits = torch.zeros(3, VOCABULARY)
    worker.apply_grammar_bitmask(logits, batch, ["d", "b", "a"], pack([{0, 31, 69}, {5}, {32}]))
    survivors = [set((row == 0).nonzero().flatten().tolist()) for row in logits]
    assert survivors == [{32}, set(range(VOCABULARY)), {0, 31, 69}]


def test_a_batch_without_grammars_is_left_alone(worker: TorchStructuredOutputsWorker) -> None:
    logits = torch.ones(1, VOCABULARY)
    worker.apply_grammar_bitmask(logits, SimpleNamespace(), [], np.zeros((0, 3), dtype=np.int32))
    assert logits.eq(1).all()
