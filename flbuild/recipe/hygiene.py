"""Values that should not be in a recipe at all: secrets, and the words of another architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.recipe.model import ImageBase, Recipe
from flbuild.settings.redact import redact

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH)(?:_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[A-Z0-9]{16}\b"
    r"|\b(?:ghp|gho|ghs|hf|glpat|xox[bp]|sk)[_-][A-Za-z0-9_-]{16,}"
)

_ARCHITECTURE_WORDS = {
    "linux/amd64": re.compile(r"(?<![A-Za-z0-9])(?:aarch64|arm64)(?![A-Za-z0-9])"),
    "linux/arm64": re.compile(r"(?<![A-Za-z0-9])(?:x86_64|x86-64|amd64)(?![A-Za-z0-9])"),
}
"""What names the other architecture, by the platform it is wrong on."""


def check_secrets(recipe: Recipe) -> Iterator[Finding]:
    """Credentials in places that end up in an image, its history or its lock."""
    for key, name, value in _variables(recipe):
        if _SECRET_NAME.search(name):
            what = f"{name} looks like a secret, and what stands here is published"
        elif _SECRET_VALUE.search(value) or redact(value) != value:
            what = f"the value of {name} looks like it holds a credential, and what stands here is published"
        else:
            continue
        yield Finding(
            "error", "secrets", key, what, "remove it; credentials belong in flbuild.toml or the environment"
        )


def check_architecture(recipe: Recipe) -> Iterator[Finding]:
    """Paths, tags and variables that name an architecture other than the recipe's."""
    texts = [(key, value) for key, _name, value in _variables(recipe)]
    texts += [
        (f"python.{name}", getattr(recipe.python, name))
        for name in ("executable", "site_packages", "scripts")
    ]
    if isinstance(recipe.base, ImageBase):
        texts.append(("base.image", recipe.base.image))
    pattern = _ARCHITECTURE_WORDS[recipe.platform]
    for key, text in texts:
        if found := pattern.search(text):
            yield Finding(
                "warning",
                "platform",
                key,
                f"'{text}' names {found[0]}, but the platform is {recipe.platform}",
                "a recipe is for one platform; correct the value, or write a second recipe",
            )


def _variables(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """Every environment variable a recipe sets, as key, name and value."""
    yield from ((f"env.{name}", name, value) for name, value in recipe.env.items())
    yield from ((f"ci.env.{name}", name, value) for name, value in recipe.ci.env.items())
    for index, package in enumerate(recipe.packages):
        for name, value in package.build_env.items():
            yield f"packages[{index}].build_env.{name}", name, value
