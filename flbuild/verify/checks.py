"""The checks of an image, in the order they are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flbuild.finding import Finding
from flbuild.verify import (
    check_config,
    check_editable,
    check_entry_points,
    check_files,
    check_forbidden,
    check_labels,
    check_layers,
    check_modules,
    check_packages,
    check_record,
    check_requirements,
    check_run,
    check_secrets,
    check_wheels,
)
from flbuild.verify.context import Verification
from flbuild.verify.waivers import apply_waivers

Check = Callable[[Verification], Iterator[Finding]]

CHECKS: dict[str, Check] = {
    "layers": check_layers.layers,
    "media-types": check_layers.media_types,
    "platform": check_config.platform,
    "output": check_config.output,
    "labels": check_labels.labels,
    "environment": check_config.environment,
    "secrets": check_secrets.secrets,
    "packages": check_packages.packages,
    "forbidden": check_forbidden.forbidden,
    "modules": check_modules.modules,
    "editable": check_editable.editable,
    "record": check_record.record,
    "wheels": check_wheels.wheels,
    "entry-points": check_entry_points.entry_points,
    "files": check_files.files,
    "requirements": check_requirements.requirements,
    "imports": check_run.imports,
    "plugin": check_run.plugin,
    "import-path": check_run.import_path,
}
"""By id; a recipe's waivers name them."""


def run_checks(verification: Verification) -> list[Finding]:
    """Everything that the checks find, after the recipe's waivers."""
    found = (finding for check in CHECKS.values() for finding in check(verification))
    order = list(CHECKS)
    reviewed = apply_waivers(found, verification.recipe.waivers, verification.today)
    return sorted(reviewed, key=lambda finding: order.index(finding.check) if finding.check in order else -1)
