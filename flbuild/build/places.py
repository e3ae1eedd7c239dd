"""Where a builder of Dockerfiles fetches a base: from its registry, or from the mirror that settings name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flbuild.lock.model import LockedImageBase
from flbuild.plan.model import Plan
from flbuild.registry.credentials import Credential, Credentials
from flbuild.registry.reference import Reference
from flbuild.settings import Settings
from flbuild.settings.model import is_loopback


@dataclass(frozen=True)
class Place:
    """A registry base where it will be fetched.

    Args:
        image: repository and tag there.
        digest: the locked manifest of the plan's platform.
        plain_http: its registry speaks no TLS.
        ca_bundle: certificates that vouch for its registry; None leaves it to the builder.
        credential: who asks; None for an anonymous visit.
    """

    image: str
    digest: str
    plain_http: bool
    ca_bundle: Path | None
    credential: Credential | None

    @property
    def host(self) -> str:
        """The registry that is asked."""
        return self.image.partition("/")[0]


def base_place(plan: Plan, settings: Settings, credentials: Credentials) -> Place | None:
    """Where the base of a plan is; None for one that was made here."""
    if not isinstance(plan.base, LockedImageBase):
        return None
    reference = Reference.parse(plan.base.reference)
    own = settings.registry(reference.host)
    place = own.mirror or reference.host
    host = place.partition("/")[0]
    return Place(
        f"{place}/{reference.repository}:{reference.tag}",
        plan.base.manifest,
        own.plain_http or is_loopback(host),
        own.ca_bundle or settings.ca_bundle,
        credentials.find(reference.host),
    )
