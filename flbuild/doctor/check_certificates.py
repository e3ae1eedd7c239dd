"""The CA bundles that the settings name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

from flbuild.doctor.context import Machine, bad, good
from flbuild.finding import Finding


def certificates(machine: Machine) -> Iterator[Finding]:
    """Each is a file that can be read and holds certificates: a wrong path shows as a TLS error elsewhere."""
    settings = machine.settings
    bundles = {"ca_bundle": settings.ca_bundle}
    bundles |= {f"registry.{host}.ca_bundle": found.ca_bundle for host, found in settings.registries.items()}
    for name, path in bundles.items():
        if path is not None:
            yield _check(name, path)


def _check(name: str, path: Path) -> Finding:
    remedy = (
        f"correct {name} in flbuild.toml, or the variable that names it (SSL_CERT_FILE, REQUESTS_CA_BUNDLE)"
    )
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile=path)
    except ssl.SSLError:
        return bad("certificates", name, f"{path} holds no certificates in PEM form", remedy)
    except OSError as error:
        return bad("certificates", name, f"{path} cannot be read: {error.strerror}", remedy)
    return good("certificates", name, f"{path}, {len(context.get_ca_certs())} certificates")
