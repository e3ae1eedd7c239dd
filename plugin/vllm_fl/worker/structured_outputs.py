"""Structured output of the second runner without Triton."""

from __future__ import annotations

import numpy as np
import torch
from vllm.v1.worker.gpu.input_batch import InputBatch
from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker


class TorchStructuredOutputsWorker(StructuredOutputsWorker):
    """Applies grammar masks by indexing; vLLM's kernel uses a mask type the Triton interpreter refuses."""

    def apply_grammar_bitmask(
        self,
        logits: torch.Tensor,
        input_batch: InputBatch,
        grammar_req_ids: list[str],
        grammar_bitmask: np.ndarray,
    ) -> None:
        """Set the logits a grammar forbids to minus infinity, in place.

        Args:
            logits: (logits, vocabulary); without speculative decoding, one row per sampling request.
            grammar_req_ids: the requests the rows of ``grammar_bitmask`` belong to, in order.
            grammar_bitmask: (grammar requests, ceil(vocabulary / 32)) int32; bit b of word w allows the
                token ``32 * w + b``.
        """
        if not grammar_req_ids:
            return
        offsets = input_batch.cu_num_logits_np
        requests = [input_batch.req_ids.index(name) for name in grammar_req_ids]
        sampling = [offsets[request] < offsets[request + 1] for request in requests]
        rows = [int(offsets[request]) for request in np.array(requests)[sampling]]
        packed = np.ascontiguousarray(grammar_bitmask[sampling]).view(np.uint8)
        allowed = np.unpackbits(packed, axis=1, count=logits.shape[1], bitorder="little").astype(bool)
        logits[rows] = logits[rows].masked_fill(~torch.from_numpy(allowed).to(logits.device), -torch.inf)
