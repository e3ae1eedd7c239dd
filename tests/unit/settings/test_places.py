from __future__ import annotations

from pathlib import Path

import pytest

from flbuild.errors import UsageError
from flbuild.settings.places import local_or_url

FOLDER = Path("/project")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("wheels", "/project/wheels"),
        ("/srv/wheels", "/srv/wheels"),
        ("file:///srv/my%20wheels", "/srv/my wheels"),
        ("FILE:///srv/wheels", "/srv/wheels"),
        ("https://x.example/simple", "https://x.example/simple"),
        ("HTTPS://x.example:8443/simple", "https://x.example:8443/simple"),
        ("https://me:pw@x.example/@team/simple", "https://me:pw@x.example/@team/simple"),
        ("http://[::1]:8080/simple", "http://[::1]:8080/simple"),
    ],
)
def test_a_place_is_a_url_or_an_absolute_path(place, expected):
    assert local_or_url(place, FOLDER) == expected


@pytest.mark.parametrize(
    "place",
    [
        "https://jane:s3c/ret@x.example/simple",
        "https://jane:123/456@x.example/simple",
        "https://s3c#ret@x.example/simple",
        "https://s3c?ret@x.example/simple",
        "https://jane:s3cret",
        "https:///s3cret",
        "https://[s3cret/simple",
        "ftp://jane:s3cret@x.example/simple",
        "s3://jane:s3cret@bucket",
    ],
)
def test_an_unusable_address_is_refused_without_repeating_it(place):
    with pytest.raises(UsageError) as caught:
        local_or_url(place, FOLDER)
    assert not any(part in str(caught.value) for part in ("s3c", "ret@", "jane", "456"))
    assert "flbuild.toml" in str(caught.value)
