"""What `--run` saw in a container: imports work, the plugin takes over, nothing comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flbuild.finding import Finding
from flbuild.verify.context import Verification
from flbuild.verify.run.drivers import Driver, load_drivers, missing_libraries
from flbuild.verify.run.observed import Observed


def imports(verification: Verification) -> Iterator[Finding]:
    """Every module of the pinned distributions can be imported, or stops at a driver that is the host's."""
    observed = verification.observed
    if verification.not_started is not None:
        python = verification.recipe.python.executable
        yield _error("imports", python, f"no container of it could start: {verification.not_started}")
    if observed is None:
        return
    drivers = _drivers(verification)
    seen = {item.distribution for item in observed.imports}
    for name in sorted(_importable(verification) - seen):
        yield _error("imports", name, "it is not installed for the image's interpreter, or has no module")
    for item in observed.imports:
        subject = f"{item.module} of {item.distribution}"
        if item.error:
            yield _failed("imports", subject, item.error, drivers)
        elif item.found is not None and not _is_under(item.found, observed.prefixes):
            yield _error("imports", subject, f"it was imported from {item.found}, which no wheel installs to")


def plugin(verification: Verification) -> Iterator[Finding]:
    """The plugin's entry points can be called, and vLLM takes the platform that they name."""
    observed = verification.observed
    if observed is None:
        return
    recipe, drivers = verification.recipe, _drivers(verification)
    called = {item.group for item in observed.registrations}
    for group in recipe.plugin.entry_points:
        if group not in called:
            yield _error("plugin", group, f"{recipe.plugin.name} registers nothing in this group")
    for item in observed.registrations:
        if item.error:
            yield _failed("plugin", f"{item.group} {item.name}", item.error, drivers)
    named = {item.found for item in observed.registrations if item.found}
    if observed.platform.error:
        yield _failed("plugin", "vllm.platforms.current_platform", observed.platform.error, drivers)
    elif observed.platform.found not in named:
        yield from _not_taken(observed, named, drivers)


def import_path(verification: Verification) -> Iterator[Finding]:
    """No PYTHONPATH, and no folder of sources among those that imports come from."""
    observed = verification.observed
    if observed is None:
        return
    if observed.python_path is not None:
        yield _error("import-path", "PYTHONPATH", f"it is '{observed.python_path}' in the container")
    places = [*observed.prefixes, verification.recipe.python.site_packages]
    for path in observed.import_path:
        if not _is_under(path, places):
            yield _error("import-path", path, "imports may come from this folder, which no wheel installs to")


def _not_taken(observed: Observed, named: set[str], drivers: Sequence[Driver]) -> Iterator[Finding]:
    found = observed.platform.found
    absent = [driver for driver in drivers if set(driver.libraries) & set(observed.absent_drivers)]
    if not named and absent:
        yield Finding(
            "info",
            "plugin",
            "vllm.platforms.current_platform",
            f"it is {found}: without the {absent[0].device} driver, which is the host's, the plugin names "
            "no platform",
        )
        return
    wanted = ", ".join(sorted(named)) or "no platform"
    yield _error("plugin", "vllm.platforms.current_platform", f"it is {found}; the plugin names {wanted}")


def _failed(check: str, subject: str, errors: Sequence[str], drivers: Sequence[Driver]) -> Finding:
    """What stops at the host's driver is for the record; anything else is an error of the image."""
    for driver in drivers:
        library = driver.explains(errors)
        if library is not None:
            return Finding(
                "info",
                check,
                subject,
                f"driver absent: it needs {library} of the {driver.device} driver, which is the host's",
            )
    missing = missing_libraries(errors)
    remedy = (
        f"bring {missing[0]} into the image, or its folder into LD_LIBRARY_PATH: it belongs to no driver"
        if missing
        else "correct the pins: something it imports is missing, of another version, or broken"
    )
    return Finding("error", check, subject, f"broken: {'; from '.join(errors[:3])}", remedy)


def _importable(verification: Verification) -> set[str]:
    """What the recipe names itself and thereby vouches for."""
    recipe = verification.recipe
    return {package.name for package in recipe.packages} | {"vllm", recipe.plugin.name}


def _drivers(verification: Verification) -> list[Driver]:
    known = load_drivers()
    return [known[name] for name in verification.recipe.base.components if name in known]


def _is_under(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _error(check: str, subject: str, message: str) -> Finding:
    return Finding("error", check, subject, message, "build the image again from the recipe")
