"""The config of an image: its platform, its environment, and whether the lock records it."""

from __future__ import annotations

from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.verify.context import Verification


def platform(verification: Verification) -> Iterator[Finding]:
    """The config's platform is the recipe's: the wrong one only shows as `exec format error` when it runs."""
    settings = verification.subject.settings
    found = f"{settings.get('os')}/{settings.get('architecture')}"
    if found != verification.recipe.platform:
        yield _error(
            "platform",
            verification.subject.name,
            f"the image is for {found}, the recipe for {verification.recipe.platform}",
            "verify the image of the other platform, or correct the recipe",
        )


def output(verification: Verification) -> Iterator[Finding]:
    """The image is one that the lock records."""
    subject, recorded = verification.subject, verification.output
    if recorded is None:
        yield _error(
            "output",
            subject.name,
            f"images.lock records no image {subject.manifest_digest}",
            f"build it with flbuild image {verification.recipe.name}, which records what it makes",
        )
    elif recorded.manifest != subject.manifest_digest:
        yield Finding(
            "warning",
            "output",
            subject.name,
            f"its content is the locked one's, its manifest is {subject.manifest_digest} instead of "
            f"{recorded.manifest}",
            "a tool or registry converted the manifest; pin the digest of what is used",
        )


def environment(verification: Verification) -> Iterator[Finding]:
    """The recipe's variables are set, and nothing redirects imports."""
    found = verification.subject.env
    for name, value in verification.recipe.env.items():
        if found.get(name) != value:
            yield _error(
                "environment",
                name,
                f"it is '{found[name]}', the recipe says '{value}'"
                if name in found
                else f"it is not set; the recipe says '{value}'",
                "build the image again from the recipe",
            )
    for name in ("PYTHONPATH", "PYTHONHOME"):
        if name in found and name not in verification.recipe.env:
            yield _error(
                "environment",
                name,
                f"it is set to '{found[name]}', so imports may not come from the locked packages",
                "take it out of the base, or declare it in the recipe",
            )


def _error(check: str, subject: str, message: str, remedy: str) -> Finding:
    return Finding("error", check, subject, message, remedy)
