"""Rotary position embedding on torch_npu."""

from __future__ import annotations

from typing import Any

import torch
import torch_npu

from vllm_fl.dispatch.types import DispatchUnsupported

_HEAD_SIZE = 128
"""The only head size the kernel is known to take (vllm-ascend#2847)."""


def rotary_embedding(
    obj: Any,
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    pos: torch.Tensor,
    rotary_interleaved: bool = False,
    inplace: bool = True,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``npu_rotary_mul`` on q and k [T, H, 128]; all else is left to the formula, which computes in fp32."""
    _check(q, k, cos, sin, pos)
    tables = [_full(table.index_select(0, pos).to(q.dtype), rotary_interleaved) for table in (cos, sin)]
    mode = "interleave" if rotary_interleaved else "half"

    def rotate(x: torch.Tensor) -> torch.Tensor:
        rotated: torch.Tensor = torch_npu.npu_rotary_mul(x.contiguous()[None], *tables, mode)[0]
        return rotated

    rotated_q, rotated_k = rotate(q), None if k is None else rotate(k)
    if not inplace:
        return rotated_q, rotated_k
    q.copy_(rotated_q)
    if k is not None and rotated_k is not None:
        k.copy_(rotated_k)
    return q, k


def _full(table: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """[T, D/2] to [1, T, 1, D]: the kernel wants every angle twice."""
    doubled = table.repeat_interleave(2, dim=-1) if interleaved else torch.cat((table, table), dim=-1)
    return doubled[None, :, None, :]


def _check(
    q: torch.Tensor, k: torch.Tensor | None, cos: torch.Tensor, sin: torch.Tensor, pos: torch.Tensor
) -> None:
    fits = (
        q.dim() == 3
        and q.dtype in (torch.float16, torch.bfloat16)
        and q.shape[-1] == 2 * cos.shape[-1] == 2 * sin.shape[-1] == _HEAD_SIZE
        and pos.dtype == torch.int64
        and pos.dim() == 1
        and 0 < pos.numel() == q.shape[0]
        and (k is None or (k.dim() == 3 and (k.dtype, k.device) == (q.dtype, q.device)))
        and (k is None or (k.shape[0], k.shape[-1]) == (q.shape[0], q.shape[-1]))
    )
    if not fits:
        raise DispatchUnsupported(
            f"the kernel does not take query {tuple(q.shape)} {q.dtype} with tables of width {cos.shape[-1]} "
            f"and {pos.dtype} positions"
        )
