"""Record of what every operator took and gave, for finding the first one that differs between two devices.

Off, it costs nothing: nothing is hooked. On, it writes below the folder ``VLLM_FL_IO_DUMP``, per rank:

    rank_0/<operator>.jsonl                    one line per call: step, layer, shapes, dtypes, statistics
    rank_0/values/<operator>/<call>.pt         the tensors themselves (``VLLM_FL_IO_DUMP_WITH_VALUES``)
    rank_0/summary.json                        calls per operator, split by whether FlagGems ran it

A step is one forward pass of the model; the profile run at start is step 0. Run the model eagerly: graphs
replay without Python, and nothing is seen of them.
"""

from __future__ import annotations

import atexit
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vllm_fl.dispatch.default import get_default_manager
from vllm_fl.dispatch.io_dump.filters import Filters
from vllm_fl.dispatch.io_dump.hooks import Hooks
from vllm_fl.dispatch.io_dump.recorder import Recorder
from vllm_fl.dispatch.io_dump.writer import Writer
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.envs import Environment

logger = logging.getLogger(__name__)

__all__ = ["IoDump", "attach"]


class IoDump:
    """A running record. ``close`` ends it and writes what is left."""

    def __init__(self, hooks: Hooks, recorder: Recorder, writer: Writer) -> None:
        self._hooks = hooks
        self._recorder = recorder
        self._writer = writer

    def close(self) -> None:
        """Remove every hook and finish the files. Closing twice does nothing more."""
        self._hooks.remove()
        self._recorder.write_summary()
        self._writer.close()
        atexit.unregister(self.close)


def attach(
    model: torch.nn.Module,
    env: Environment,
    rank: int,
    *,
    manager: OpManager | None = None,
    **options: Any,
) -> IoDump | None:
    """Record the operators of ``model`` as ``env`` asks; None when it asks for nothing on this rank.

    ``options`` are fields of the environment without their prefix (``dir`` for the folder), and beat it.
    Raises TypeError for an unknown one, and OSError when the folder cannot be made.
    """
    fields = {"io_dump" if name == "dir" else f"io_dump_{name}": value for name, value in options.items()}
    env = replace(env, **fields)
    if env.io_dump is None or (env.io_dump_rank is not None and rank not in env.io_dump_rank):
        return None
    folder = Path(env.io_dump).absolute() / f"rank_{rank}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    if env.io_dump_with_values:
        logger.warning("%s will hold the values of activations, from which user data can be read", folder)
    writer = Writer(env.io_dump_bg_workers)
    recorder = Recorder(
        folder,
        Filters(
            ops=env.io_dump_ops,
            modules=env.io_dump_modules,
            layers=env.io_dump_layers,
            steps=env.io_dump_step_range,
            max_calls=env.io_dump_max_calls,
        ),
        writer,
        metas=env.io_dump_with_metas,
        values=env.io_dump_with_values,
        log=env.io_dump_with_print,
    )
    hooks = Hooks(
        model, recorder, manager or get_default_manager(), torch_functions=env.io_dump_with_torch_funcs
    )
    dump = IoDump(hooks, recorder, writer)
    atexit.register(dump.close)
    logger.info("rank %d: recording operators in %s", rank, folder)
    return dump
