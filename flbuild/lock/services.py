"""The real services behind locking: indexes, git, uv, bases, wheel builds."""

from __future__ import annotations

from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.lock.bases import Bases
from flbuild.lock.entry import Services
from flbuild.lock.resolve import Resolver
from flbuild.progress import Progress
from flbuild.settings import Settings
from flbuild.wheel.builder import WheelBuilder


def make_services(settings: Settings, progress: Progress, *, offline: bool = False) -> Services:
    """Services for these settings; with `offline`, none of them talks to the network."""
    client = IndexClient(settings, progress, offline=offline)
    store = FileStore(settings, client, progress)
    git = GitStore(settings, offline=offline)
    return Services(
        client=client,
        store=store,
        git=git,
        resolver=Resolver(settings, offline=offline),
        bases=Bases(settings, progress, offline=offline),
        builder=WheelBuilder(settings.cache_dir, store, git, progress),
        progress=progress,
    )
