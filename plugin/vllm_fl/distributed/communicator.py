"""Collectives of out-of-tree devices, on ``torch.distributed`` alone (gloo, HCCL)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase


class CommunicatorFL(DeviceCommunicatorBase):
    """vLLM's base communicator, for tensors of any strides, any dimension and uneven shares.

    Raises ValueError when an argument does not fit the group, before anything is sent. Every rank must pass
    the same dimension and the same sizes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.use_all2all:
            raise NotImplementedError(
                "Expert parallelism across data-parallel ranks is not supported on this device. Leave out "
                "--data-parallel-size, or run several servers behind a balancer"
            )

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum over ranks. The input is used for it, unless its strides make that impossible."""
        return super().all_reduce(input_.contiguous())

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The ranks' inputs, of one shape, joined along ``dim``."""
        return super().all_gather(input_.contiguous(), self._dimension(input_, dim))

    def all_gatherv(
        self,
        input_: torch.Tensor | list[torch.Tensor],
        dim: int = 0,
        sizes: list[int] | None = None,
    ) -> torch.Tensor | list[torch.Tensor]:
        """The ranks' inputs joined along ``dim``, where rank r's has ``sizes[r]``; None: all the same.

        A list of tensors is joined one by one.
        """
        if isinstance(input_, list):
            return [self._all_gatherv(tensor, dim, sizes) for tensor in input_]
        return self._all_gatherv(input_, dim, sizes)

    def _all_gatherv(self, input_: torch.Tensor, dim: int, sizes: list[int] | None) -> torch.Tensor:
        dim = self._dimension(input_, dim)
        if sizes is None:
            return self.all_gather(input_, dim)
        self._check_sizes(sizes)
        if input_.shape[dim] != sizes[self.rank_in_group]:
            raise ValueError(
                f"all_gatherv: rank {self.rank_in_group} has {input_.shape[dim]} along dimension {dim}, "
                f"not the {sizes[self.rank_in_group]} of sizes {list(sizes)}"
            )
        # Backends gather equal shares only, so shares are filled up to the largest and cut afterwards.
        share = _filled(input_.movedim(dim, 0), max(sizes))
        gathered = super().all_gather(share, 0).unflatten(0, (self.world_size, -1))
        parts = [rank_share[:size] for rank_share, size in zip(gathered, sizes, strict=True)]
        return torch.cat(parts).movedim(0, dim).contiguous()

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """This rank's equal share, along ``dim``, of the sum over ranks."""
        dim = self._dimension(input_, dim)
        if input_.shape[dim] % self.world_size:
            raise ValueError(
                f"reduce_scatter: {input_.shape[dim]} along dimension {dim} cannot be shared equally by "
                f"{self.world_size} ranks"
            )
        return self._reduce_scatter(input_.movedim(dim, 0)).movedim(0, dim).contiguous()

    def reduce_scatterv(
        self, input_: torch.Tensor, dim: int = -1, sizes: list[int] | None = None
    ) -> torch.Tensor:
        """As :meth:`reduce_scatter`, where rank r's share is ``sizes[r]``."""
        if sizes is None:
            return self.reduce_scatter(input_, dim)
        dim = self._dimension(input_, dim)
        self._check_sizes(sizes)
        if input_.shape[dim] != sum(sizes):
            raise ValueError(
                f"reduce_scatterv: sizes {list(sizes)} do not add up to the {input_.shape[dim]} along "
                f"dimension {dim}"
            )
        shares = input_.movedim(dim, 0).split(sizes)
        filled = torch.cat([_filled(share, max(sizes)) for share in shares])
        return self._reduce_scatter(filled)[: sizes[self.rank_in_group]].movedim(0, dim).contiguous()

    def _reduce_scatter(self, input_: torch.Tensor) -> torch.Tensor:
        """Equal shares along the first dimension."""
        if self.world_size == 1:
            return input_
        output = input_.new_empty(input_.shape[0] // self.world_size, *input_.shape[1:])
        dist.reduce_scatter_tensor(output, input_.contiguous(), group=self.device_group)
        return output

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """The ranks' inputs joined along ``dim`` on rank ``dst`` of the group; None elsewhere."""
        return super().gather(input_.contiguous(), dst, self._dimension(input_, dim))

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        super().send(tensor.contiguous(), dst)

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Overwrite ``tensor`` with that of rank ``src`` of the group, and return it."""
        if tensor.is_contiguous():
            return super().broadcast(tensor, src)
        return tensor.copy_(super().broadcast(tensor.contiguous(), src))

    def _dimension(self, tensor: torch.Tensor, dim: int) -> int:
        if not -tensor.dim() <= dim < tensor.dim():
            raise ValueError(f"Dimension {dim} is out of range for a tensor of shape {tuple(tensor.shape)}")
        return dim % tensor.dim()

    def _check_sizes(self, sizes: Sequence[int]) -> None:
        if len(sizes) != self.world_size or min(sizes) < 0:
            raise ValueError(f"sizes {list(sizes)} must hold the share of each of {self.world_size} ranks")


def _filled(share: torch.Tensor, size: int) -> torch.Tensor:
    """``share`` with rows of zeros after its own, ``size`` in all."""
    filled = share.new_zeros(size, *share.shape[1:])
    filled[: share.shape[0]] = share
    return filled
