"""What must not leave the machine that built an image: credentials, and where its network is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.verify.context import Verification

_SECRETS = (
    (re.compile(r"://[^/\s:@]*:[^/\s@]+@"), "a URL with a password"),
    (re.compile(r"://[A-Za-z0-9_-]{20,}@"), "a URL with a token"),
    (
        re.compile(r"(?i)(?:password|passwd|secret|token|api_?key)\s*[=:]\s*\\?[\"']?[^\s\"',\\]{6,}"),
        "a password or token",
    ),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), "an AWS access key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"), "a GitHub token"),
    (re.compile(r"\bhf_[A-Za-z0-9]{30,}"), "a Hugging Face token"),
)
_PROXY = re.compile(r"(?i)\b(?:https?|ftp|all)_proxy=\S")


def secrets(verification: Verification) -> Iterator[Finding]:
    """History, environment and labels hold nothing that looks like a credential, nor a proxy's address."""
    for place, text in _places(verification).items():
        for pattern, what in _SECRETS:
            if pattern.search(text):
                yield Finding(
                    "error",
                    "secrets",
                    place,
                    f"it holds {what}",
                    "rotate the credential, and build without it",
                )
                break
        if _PROXY.search(text):
            yield Finding(
                "warning",
                "secrets",
                place,
                "it holds the address of a proxy, which other machines do not have",
                "set the proxy in flbuild.toml or for the engine, not for the build",
            )


def _places(verification: Verification) -> dict[str, str]:
    subject = verification.subject
    places = {f"env {name}": f"{name}={value}" for name, value in subject.env.items()}
    places |= {f"label {name}": f"{name}={value}" for name, value in subject.labels.items()}
    for index, entry in enumerate(subject.settings.get("history") or ()):
        places[f"history {index}"] = json.dumps(entry)
    return places
