"""FlagGems as the implementation of torch's operators in a worker."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from types import ModuleType

from vllm_fl.dispatch.oplist import oplist_path
from vllm_fl.dispatch.settings import Settings

logger = logging.getLogger(__name__)


def enable_flaggems(settings: Settings, rank: int) -> None:
    """Let FlagGems take over torch's operators, as far as the lists in ``settings`` allow.

    Call it once per worker, after its device is set. Without FlagGems, or where it finds no device, torch's
    own operators stay.
    """
    if not settings.flaggems:
        logger.info("FlagGems is off on device %r", settings.device)
        return
    try:
        import flag_gems
    except ImportError as error:
        logger.warning(
            "FlagGems is not installed (%s); torch's own operators stay. USE_FLAGGEMS=0 is quiet", error
        )
        return
    except RuntimeError as error:
        logger.warning(
            "FlagGems cannot start (%s); torch's own operators stay. GEMS_VENDOR names a vendor", error
        )
        return
    if getattr(flag_gems, "current_work_registrar", None) is not None:
        logger.warning(
            "FlagGems was enabled before the plugin started, so the plugin's lists of functions that fail on "
            "device %r are not in force. Remove the other call of flag_gems.enable()",
            settings.device,
        )
        return
    _report_version(flag_gems, settings)
    env = settings.environment
    _warn_about_unknown_functions(flag_gems, (*(env.flagos_whitelist or ()), *(env.flagos_blacklist or ())))
    path = oplist_path(env.oplist_path) if rank == 0 else None
    record = {"record": path is not None, "once": True, "path": None if path is None else str(path)}
    if env.flagos_whitelist is not None:
        flag_gems.only_enable(include=list(env.flagos_whitelist), **record)
    else:
        flag_gems.enable(unused=list(env.flagos_blacklist or ()), **record)
    if path is not None:
        logger.info("FlagGems operators in use are listed in %s", path)


def _report_version(flag_gems: ModuleType, settings: Settings) -> None:
    found, pinned = getattr(flag_gems, "__version__", "unknown"), settings.flaggems_version
    logger.info("FlagGems %s", found)
    if pinned is not None and found.partition("+")[0] != pinned:
        logger.warning(
            "The lists of FlagGems functions were made for release %s, found %s: functions may fail that the "
            "lists do not name. Check them, or install flag_gems==%s",
            pinned,
            found,
            pinned,
        )


def _warn_about_unknown_functions(flag_gems: ModuleType, names: Iterable[str]) -> None:
    """A misspelled name would protect nothing."""
    known = function_names(flag_gems)
    for name in names:
        if known and name not in known:
            near = difflib.get_close_matches(name, known)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            logger.warning("FlagGems has no function %r, so listing it has no effect%s", name, hint)


def function_names(flag_gems: ModuleType) -> frozenset[str]:
    """Names its lists match: of functions behind torch's operators, and of the fused ones."""
    registered = (entry[1].__name__ for entry in getattr(flag_gems, "_FULL_CONFIG", ()))
    return frozenset((*registered, *getattr(getattr(flag_gems, "fused", None), "__all__", ())))
