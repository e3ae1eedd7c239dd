"""Where things are fetched from and with which credentials: strict, frozen, secrets hidden."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from flbuild.errors import UsageError
from flbuild.settings.names import mangle
from flbuild.settings.places import local_or_url, split_userinfo
from flbuild.settings.redact import HIDDEN, redact
from flbuild.suggest import perhaps


class SettingsModel(BaseModel):
    """Unknown keys are errors, values never change, and no error message repeats a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class IndexSettings(SettingsModel):
    """A named package index."""

    url: str | None = Field(
        default=None,
        description="http(s) URL of a simple index, or a local folder of wheels or in its layout",
    )
    username: SecretStr | None = None
    password: SecretStr | None = None
    summary: str = ""

    def redirected(self, place: str, folder: Path) -> IndexSettings:
        """This index at another place; the old place's credentials do not go there.

        Args:
            place: a URL, which may carry credentials, or a local path.
            folder: what a relative path is relative to.
        """
        url, username, password = split_userinfo(local_or_url(place, folder))
        return self.model_copy(update={"url": url, "username": username, "password": password})


class RegistrySettings(SettingsModel):
    """How one registry host is reached."""

    mirror: str | None = Field(default=None, description="host[:port][/prefix] that is asked instead")
    plain_http: bool = Field(default=False, description="speak http instead of https")
    ca_bundle: Path | None = None
    username: SecretStr | None = None
    password: SecretStr | None = None

    def changed(self, changes: Mapping[str, object]) -> RegistrySettings:
        """These settings with changes from a stronger source; a new mirror gets no credentials of before."""
        if changes.get("mirror", self.mirror) != self.mirror:
            changes = {"username": None, "password": None, **changes}
        return self.model_copy(update=dict(changes))


def is_loopback(host: str) -> bool:
    """Whether `host`, with or without a port, is this machine itself."""
    bracketed = re.fullmatch(r"\[([^]]+)\](?::\d+)?", host)
    name = bracketed[1] if bracketed else re.sub(r"^([^:]*):\d+$", r"\1", host)
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Settings(SettingsModel):
    """Everything that differs between machines and never changes what is built."""

    indexes: dict[str, IndexSettings]
    registries: dict[str, RegistrySettings] = Field(
        default_factory=dict, description="by host, as written in a reference"
    )
    registry_variables: dict[str, dict[str, SecretStr]] = Field(
        default_factory=dict,
        description="from the environment, by host in the form that a variable's name can hold",
    )
    find_links: tuple[str, ...] = Field(
        default=(), description="folders or pages that hold wheels beside the indexes"
    )
    debian_sources: tuple[str, ...] = Field(
        default=(),
        description="source lines, mirrors or files of such that Debian bases come from; "
        "unset leaves it to mmdebstrap",
    )
    cache_dir: Path
    ca_bundle: Path | None = None
    proxy: SecretStr | None = Field(
        default=None,
        description="for http and https; unset leaves it to HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
    )
    jobs: int = Field(gt=0, description="files fetched or compressed at the same time")

    def index(self, index_id: str) -> IndexSettings:
        """The index a recipe calls `index_id`.

        Raises:
            UsageError: no such index is known here.
        """
        try:
            return self.indexes[index_id]
        except KeyError:
            raise UsageError(
                f"unknown index '{index_id}'{perhaps(index_id, self.indexes)}",
                cause="indexes are named in flbuild.toml or built in",
                remedy=f"add [index.{index_id}] with a url to flbuild.toml",
            ) from None

    def registry(self, host: str) -> RegistrySettings:
        """How `host` (with its port, as written in a reference) is reached; never an error."""
        found = self.registries.get(host.lower(), RegistrySettings(plain_http=is_loopback(host)))
        variables = self.registry_variables.get(mangle(host), {})
        changes = {
            key: value.get_secret_value() if key == "mirror" else value for key, value in variables.items()
        }
        return found.changed(changes)

    def with_flags(
        self,
        *,
        index_urls: dict[str, str] | None = None,
        find_links: tuple[str, ...] = (),
        cache_dir: Path | None = None,
        jobs: int | None = None,
    ) -> Settings:
        """These settings with command-line flags on top; find-links are added in front."""
        indexes = dict(self.indexes)
        for index_id, url in (index_urls or {}).items():
            indexes[index_id] = self.index(index_id).redirected(url, Path.cwd())
        changes: dict[str, object] = {"indexes": indexes, "find_links": (*find_links, *self.find_links)}
        if cache_dir is not None:
            changes["cache_dir"] = cache_dir
        if jobs is not None:
            changes["jobs"] = jobs
        return self.model_copy(update=changes)

    def redact(self, text: str) -> str:
        """`text` without any credential these settings hold, and without those any URL in it carries."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return redact(text)

    def _secrets(self) -> set[str]:
        holders: list[IndexSettings | RegistrySettings] = [*self.indexes.values(), *self.registries.values()]
        secrets = [secret for holder in holders for secret in (holder.username, holder.password)]
        secrets += [
            value
            for variables in self.registry_variables.values()
            for key, value in variables.items()
            if key != "mirror"
        ]
        return {text for secret in secrets if secret is not None and (text := secret.get_secret_value())}
