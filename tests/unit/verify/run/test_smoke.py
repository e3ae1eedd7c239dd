"""The program that looks around in an image, run by this interpreter over a folder of distributions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flbuild.verify.run import smoke
from flbuild.verify.run.observed import read_observed

CRASH = b"import os\nos.abort()\n"
CHAINED = b"""
try:
    import nowhere
except ImportError as error:
    raise RuntimeError("the extension is broken") from error
"""
POINTS = "[vllm.platform_plugins]\nfl = fl:register\n[vllm.general_plugins]\nfl = fl:models\n"
PLUGIN = b"def register():\n    return 'fl.Platform'\n\ndef models():\n    return 7\n"
PLATFORMS = b"class Platform: ...\ncurrent_platform = Platform()\n"


@pytest.fixture
def site(tmp_path, installed_files):
    """`site.add(name, version, ...)` installs a distribution; `site.look(...)` gives what was observed."""

    class Site:
        def add(self, name, version="1.0", **changes):
            for path, content in installed_files(name, version, site="site", **changes).items():
                place = tmp_path / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

        def look(self, *distributions, plugin="nothing", groups=(), drivers=(), seconds=20):
            request = {
                "distributions": distributions,
                "plugin": plugin,
                "groups": groups,
                "drivers": drivers,
                "seconds": seconds,
            }
            done = subprocess.run(
                [sys.executable, "-S", "-c", Path(smoke.__file__).read_text(), json.dumps(request)],
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "site")},
                capture_output=True,
                text=True,
                check=True,
            )
            return read_observed(done.stdout)

    return Site()


def test_imports_are_reported_with_where_they_came_from(site):
    site.add("Some-Package", files={"one/__init__.py": b"", "two.py": b"", "_private.py": b""})
    found = site.look("some_package").imports
    assert [(item.distribution, item.module, item.error) for item in found] == [
        ("some-package", "one", ()),
        ("some-package", "two", ()),
    ]
    assert found[0].found.endswith("site/one/__init__.py")


def test_a_failing_import_gives_its_chain_of_errors(site):
    site.add("broken", files={"broken.py": CHAINED})
    (found,) = site.look("broken").imports
    assert found.error == (
        "RuntimeError: the extension is broken",
        "ModuleNotFoundError: No module named 'nowhere'",
    )


def test_a_crash_or_an_endless_import_does_not_stop_the_others(site):
    site.add("crash", files={"crash.py": CRASH})
    site.add("endless", files={"endless.py": b"while True: pass\n"})
    site.add("fine", files={"fine.py": b"print('noise')\n"})
    found = {item.module: item for item in site.look("crash", "endless", "fine", seconds=1).imports}
    assert found["crash"].error[0] == "the process ended with -6"
    assert found["endless"].error == ("no end after 1 seconds",)
    assert found["fine"].error == ()


def test_the_plugin_is_called_as_vllm_does(site):
    site.add("fl-plugin", files={"fl.py": PLUGIN}, entry_points=POINTS)
    site.add("vllm", files={"vllm/__init__.py": b"", "vllm/platforms.py": PLATFORMS})
    seen = site.look(plugin="fl-plugin", groups=["vllm.platform_plugins", "vllm.general_plugins"])
    called = {item.group: item.found for item in seen.registrations}
    assert called == {"vllm.platform_plugins": "fl.Platform", "vllm.general_plugins": None}
    assert seen.platform.found == "vllm.platforms.Platform"


def test_what_redirects_imports_and_what_is_installed_is_reported(site):
    site.add("needy", "2.0", requires=["numpy>=2"])
    seen = site.look(drivers=["libflbuild_nowhere.so"])
    assert seen.python_path.endswith("/site")
    assert seen.python_path in seen.import_path
    assert seen.absent_drivers == ("libflbuild_nowhere.so",)
    assert [(item.name, item.requires) for item in seen.installed] == [("needy", ("numpy>=2",))]


def test_output_that_holds_no_document_is_nothing():
    assert read_observed("Traceback (most recent call last):") is None
    assert read_observed(f"{smoke.BEGIN}{{}}") is None
    assert read_observed(f"{smoke.BEGIN}not json") is None
