"""Where calls are seen: the dispatched operators, torch's own, and the modules they run in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from vllm_fl.dispatch.io_dump.filters import Place
from vllm_fl.dispatch.io_dump.recorder import Recorder
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.types import OpImpl

logger = logging.getLogger(__name__)


class Hooks:
    """Hooks of one model. What fails in recording is reported once per operator, and stops nothing."""

    def __init__(
        self, model: torch.nn.Module, recorder: Recorder, manager: OpManager, *, torch_functions: bool
    ) -> None:
        self._recorder = recorder
        self._manager = manager
        self._torch_functions = torch_functions
        self._broken: set[str] = set()
        self._active = ExitStack()
        self._handles: list[Any] = []
        for path, module in model.named_modules():
            self._watch(module, Place(path, type(module).__name__))
        # The outermost hooks come last, so that the root's pre-hook below runs before the one above.
        self._handles.append(model.register_forward_pre_hook(self._begin_step, prepend=True))
        self._handles.append(model.register_forward_hook(self._end_step, always_call=True))
        manager.instrument(self._wrap)

    def remove(self) -> None:
        self._manager.instrument(None)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._active.close()

    def _watch(self, module: torch.nn.Module, place: Place) -> None:
        running = self._recorder.running

        def enter(*_: Any) -> None:
            running.append(place)

        def leave(*_: Any) -> None:
            # An error inside may have skipped the leaving of inner modules.
            while running and running.pop() is not place:
                pass

        self._handles.append(module.register_forward_pre_hook(enter))
        self._handles.append(module.register_forward_hook(leave, always_call=True))

    def _begin_step(self, *_: Any) -> None:
        self._recorder.running.clear()
        self._recorder.step += 1
        if self._torch_functions:
            self._active.enter_context(_TorchOperators(self))

    def _end_step(self, *_: Any) -> None:
        self._active.close()
        self._recorder.write_summary()

    def _wrap(self, impl: OpImpl, function: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            return self.call(impl.op_name, impl.impl_id, impl.kind == "flagos", function, args, kwargs)

        return recorded

    def call(
        self, op: str, backend: str, flaggems: bool, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """Run ``function``, and record the call if that is wanted and works."""
        if op in self._broken or not self._recorder.wants(op) or _capturing():
            return function(*args, **kwargs)
        inputs = self._guarded(op, lambda: self._recorder.inputs(args, kwargs))
        output = function(*args, **kwargs)
        if inputs is not None:
            self._guarded(op, lambda: self._recorder.record(op, backend, flaggems, inputs, output))
        return output

    def _guarded(self, op: str, work: Callable[[], Any]) -> Any:
        try:
            with _disable_current_modes():
                return work()
        except Exception:
            self._broken.add(op)
            logger.warning("Calls of %s cannot be recorded", op, exc_info=True)
            return None


class _TorchOperators(TorchDispatchMode):
    """Shows every operator of torch's to the hooks."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self._hooks = hooks
        self._flaggems = _flaggems_keys()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_composite(func, _device_type(args, kwargs)):
            with self:
                return func.decompose(*args, **kwargs)
        library, _, name = func.name().partition("::")
        flaggems = library == "aten" and name in self._flaggems
        op = f"{library}.{name.partition('.')[0]}"
        return self._hooks.call(op, "flag_gems" if flaggems else "torch", flaggems, func, args, kwargs)


@cache
def _is_composite(func: Any, device_type: str) -> bool:
    """Whether an operator only calls others, such as linear calls mm: those are the ones to show.

    Outside autograd torch offers the composite one; a device may still have a kernel of its own for it.
    """
    name = func.name()
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(
        name, torch._C._dispatch_key_for_device(device_type)
    )


def _device_type(args: Any, kwargs: Any) -> str:
    leaves = tree_leaves((args, kwargs))
    return next((leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)), "cpu")


def _flaggems_keys() -> frozenset[str]:
    """Torch's operators that FlagGems has taken over, such as ``add.Tensor``."""
    import sys

    flag_gems = sys.modules.get("flag_gems")
    if flag_gems is None or getattr(flag_gems, "current_work_registrar", None) is None:
        return frozenset()
    return frozenset(flag_gems.all_registered_keys())


def _capturing() -> bool:
    """While a graph is captured, nothing may be read back from the device."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
