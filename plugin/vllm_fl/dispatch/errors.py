"""Which errors let another implementation try."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_fl.dispatch.types import DispatchUnsupported, OpImpl

_UNSUPPORTED = (NotImplementedError, ImportError, AttributeError)
"""The library has no such operator here: a version that lacks it, or a device it does not cover."""

_COMPILER = frozenset({"CompilationError", "MLIRCompilationError", "OutOfResources", "PTXASError"})
"""Classes of Triton and of its vendor builds, by name: they live in different modules in each."""

_COMPILER_TEXT = "PassManager::run failed"
"""Triton raises a plain RuntimeError with this text when the lowering of a kernel fails."""

_FATAL_CLASSES = frozenset({"OutOfMemoryError", "AcceleratorError", "MemoryError"})
_FATAL_TEXTS = (
    "out of memory",
    "507015",
    "507035",
    "illegal memory access",
    "device-side assert",
    "CUDA error",
)
"""A device in one of these states answers every later call with an error, or with nonsense."""


def allows_fallback(error: Exception, impl: OpImpl) -> bool:
    """Whether another implementation may take the call that ``impl`` answered with ``error``.

    Only errors that say the operator cannot run here do. Wrong arguments, exhausted memory and dead devices
    would fail elsewhere too, or hide the cause; and arguments an implementation has begun to change are lost.
    """
    if any(_is_fatal(link) for link in _chain(error)):
        return False
    if impl.may_mutate:
        return isinstance(error, DispatchUnsupported)
    return isinstance(error, _UNSUPPORTED) or _is_compile_error(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _is_fatal(error: BaseException) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & _FATAL_CLASSES) or any(text in str(error) for text in _FATAL_TEXTS)


def _is_compile_error(error: Exception) -> bool:
    if type(error) is RuntimeError:
        return _COMPILER_TEXT in str(error)
    return any(
        cls.__name__ in _COMPILER and cls.__module__.split(".")[0] == "triton" for cls in type(error).__mro__
    )
