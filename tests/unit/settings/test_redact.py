from __future__ import annotations

import pytest

from flbuild.settings import redact, redact_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET https://me:pw@x.example/simple failed", "GET https://***@x.example/simple failed"),
        ("https://token@x.example", "https://***@x.example"),
        ("https://me:p@ss@x.example/a", "https://***@x.example/a"),
        (
            "git+https://me:pw@x.example, http://a:b@y.example",
            "git+https://***@x.example, http://***@y.example",
        ),
        ("https://s3.example/x?X-Amz-Signature=abc&n=1", "https://s3.example/x?X-Amz-Signature=***&n=1"),
        ("https://x.example/?a=1&access_token=abc#top", "https://x.example/?a=1&access_token=***#top"),
        ("Authorization: Bearer abc.xyz", "Authorization: Bearer ***"),
        ("{'authorization': 'Basic dXNlcjpwYXNz', 'a': 1}", "{'authorization': 'Basic ***', 'a': 1}"),
        ("authorization: opaque", "authorization: ***"),
        (
            "the Bearer scheme is not offered, Basic credentials are",
            "the Bearer scheme is not offered, Basic credentials are",
        ),
        ("https://x.example/a@b?mail=c@d", "https://x.example/a@b?mail=c@d"),
        ("nothing to hide: user@host, 10:30", "nothing to hide: user@host, 10:30"),
    ],
)
def test_text_is_shown_without_credentials(text, expected):
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:pw@x.example:8443/a?b=c", "https://x.example:8443/a?b=c"),
        ("https://x.example/a", "https://x.example/a"),
        ("/srv/wheels", "/srv/wheels"),
    ],
)
def test_a_url_to_write_has_no_user_at_all(url, expected):
    assert redact_url(url) == expected
