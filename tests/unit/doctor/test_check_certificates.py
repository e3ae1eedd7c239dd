from __future__ import annotations

import certifi
import pytest

from flbuild.doctor.check_certificates import certificates
from flbuild.settings import RegistrySettings


def test_no_bundle_is_no_finding(machine):
    assert list(certificates(machine())) == []


def test_a_bundle_with_certificates_is_fine(machine):
    (finding,) = certificates(machine(ca_bundle=certifi.where()))
    assert finding.severity == "info"


@pytest.mark.parametrize(
    ("content", "what"), [(None, "cannot be read: No such file"), ("", "holds no certificates")]
)
def test_a_bundle_that_is_set_but_useless_is_an_error(machine, tmp_path, content, what):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    (finding,) = certificates(machine(ca_bundle=path))
    assert finding.severity == "error"
    assert what in finding.message
    assert "SSL_CERT_FILE" in finding.remedy


def test_the_bundle_of_a_registry_counts_too(machine, tmp_path):
    own = {"harbor.example.org": RegistrySettings(ca_bundle=tmp_path / "gone.pem")}
    (finding,) = certificates(machine(registries=own))
    assert finding.subject == "registry.harbor.example.org.ca_bundle"
