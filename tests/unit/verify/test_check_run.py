"""What counts as an error in a running image, and what only tells that its host's driver is absent."""

import pytest

from flbuild.verify.run.observed import Answer, Import, Observed, Registration, SeenDistribution

SITE = "/usr/local/lib/python3.11/dist-packages"
CANN = {"base": {"debian": "bookworm", "components": {"cann": "9.0.0"}}}
HAL = "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"
HCCL = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
PLATFORM = "vllm_fl.platform.PlatformFL"
UNSPECIFIED = "vllm.platforms.interface.UnspecifiedPlatform"


def imported(distribution, module=None, *error):
    module = module or distribution
    found = None if error else f"{SITE}/{module}/__init__.py"
    return Import(found=found, error=error, distribution=distribution, module=module)


def registered(found=PLATFORM, *error, group="vllm.platform_plugins"):
    return Registration(found=None if error else found, error=error, group=group, name="fl")


def seen(**changes):
    values = {
        "import_path": ("/usr/lib/python3.11", SITE),
        "python_path": None,
        "prefixes": ("/usr",),
        "absent_drivers": (),
        "installed": (),
        "imports": (imported("vllm"), imported("vllm-plugin-fl", "vllm_fl")),
        "registrations": (registered(),),
        "platform": Answer(found=PLATFORM, error=()),
        "pip_check": None,
    }
    return Observed(**values | changes)


@pytest.fixture
def run(case):
    """`run(check, **changes)`: severity, subject and message of what a check says of an observation."""

    def findings(check, **changes):
        case.observed = seen(**changes)
        return [(item.severity, item.subject, item.message) for item in case.findings(check)]

    return findings


@pytest.mark.parametrize("check", ["imports", "plugin", "import-path"])
def test_a_container_that_works_has_no_findings(run, check):
    assert run(check) == []


@pytest.mark.parametrize("check", ["imports", "plugin", "import-path"])
def test_without_a_container_nothing_is_said(case, check):
    assert case.findings(check) == []


def test_i29_an_import_that_stops_at_the_driver_is_no_error_of_the_image(run, case):
    case.recipe |= CANN
    items = (imported("vllm"), imported("vllm-plugin-fl", "vllm_fl"), imported("torch-npu", "torch_npu", HAL))
    ((severity, subject, message),) = run("imports", imports=items)
    assert (severity, subject) == ("info", "torch_npu of torch-npu")
    assert "driver absent" in message
    assert "libascend_hal.so" in message


def test_i29_a_library_that_no_driver_brings_is_broken(run, case):
    case.recipe |= CANN
    items = (
        imported("vllm"),
        imported("vllm-plugin-fl", "vllm_fl"),
        imported("torch-npu", "torch_npu", HCCL),
    )
    ((severity, _, message),) = run("imports", imports=items)
    assert severity == "error"
    assert message.startswith("broken")
    assert "libhccl.so" in message
    assert "libhccl.so" in case.findings("imports")[0].remedy


def test_i29_the_driver_of_another_device_explains_nothing(run):
    (found,) = run("imports", imports=(imported("vllm", "vllm", HAL), imported("vllm-plugin-fl")))
    assert found[0] == "error"


def test_a_distribution_that_was_not_found_is_an_error(run):
    (found,) = run("imports", imports=(imported("vllm-plugin-fl", "vllm_fl"),))
    assert found[:2] == ("error", "vllm")


def test_a_module_from_a_source_tree_is_an_error(run):
    mounted = imported("vllm").model_copy(update={"found": "/src/vllm/__init__.py"})
    (found,) = run("imports", imports=(mounted, imported("vllm-plugin-fl")))
    assert "/src/vllm/__init__.py" in found[2]


def test_a_container_that_does_not_start_is_an_error(case):
    case.not_started = "no such file or directory"
    (found,) = case.findings("imports")
    assert found.severity == "error"
    assert "no such file or directory" in found.message


def test_a_plugin_that_registers_nothing_is_an_error(run):
    messages = [message for _, _, message in run("plugin", registrations=())]
    assert any("registers nothing" in message for message in messages)


def test_a_plugin_that_vllm_does_not_take_is_an_error(run):
    ((severity, _, message),) = run("plugin", platform=Answer(found=UNSPECIFIED, error=()))
    assert severity == "error"
    assert UNSPECIFIED in message
    assert PLATFORM in message


def test_a_plugin_that_fails_is_an_error(run):
    broken = registered(None, "ModuleNotFoundError: No module named 'decorator'")
    items = run("plugin", registrations=(broken,), platform=Answer(found=UNSPECIFIED, error=()))
    assert {severity for severity, _, _ in items} == {"error"}


def test_no_platform_without_a_driver_is_no_error(run, case):
    case.recipe |= CANN
    ((severity, _, message),) = run(
        "plugin",
        registrations=(registered(None),),
        platform=Answer(found=UNSPECIFIED, error=()),
        absent_drivers=("libascend_hal.so",),
    )
    assert severity == "info"
    assert "Ascend driver" in message


def test_no_platform_with_a_driver_is_an_error(run, case):
    case.recipe |= CANN
    ((severity, _, _),) = run(
        "plugin", registrations=(registered(None),), platform=Answer(found=UNSPECIFIED, error=())
    )
    assert severity == "error"


def test_redirected_imports_are_errors(run):
    found = run("import-path", python_path="/src", import_path=("/src", SITE))
    assert [(severity, subject) for severity, subject, _ in found] == [
        ("error", "PYTHONPATH"),
        ("error", "/src"),
    ]


def test_a_container_shows_unmet_requirements_of_the_base_too(run):
    installed = (
        SeenDistribution(name="torch-npu", version="2.10.0", requires=("torch==2.9.0",)),
        SeenDistribution(name="torch", version="2.10.0", requires=()),
    )
    assert run("requirements", installed=installed) == [
        ("error", "torch-npu needs torch==2.9.0", "torch 2.10.0 is installed")
    ]


def test_what_pip_says_is_waived_by_the_subject_that_we_print(run, case):
    lines = ("opencv-python 4.13 has requirement numpy>=2, but you have numpy 1.26.4.",)
    assert run("requirements", pip_check=lines) == [
        ("error", "opencv-python needs numpy>=2", "numpy 1.26.4 is installed")
    ]
    case.recipe["waivers"] = [
        {
            "check": "requirements",
            "subject": "opencv-python needs numpy>=2",
            "reason": "reviewed and harmless",
            "expires": "2027-01-01",
        }
    ]
    case.observed = seen(pip_check=lines)
    (found,) = (item for item in case.findings() if item.subject == "opencv-python needs numpy>=2")
    assert found.severity == "info"


@pytest.mark.parametrize(
    ("line", "subject", "message"),
    [
        ("a 1.0 requires b>=2, which is not installed.", "a needs b>=2", "b is not installed"),
        ("a 1.0 is not supported on this platform", "pip check: a 1.0 is not supported on this platform", ""),
    ],
)
def test_every_line_of_pip_is_a_finding(run, line, subject, message):
    (found,) = run("requirements", pip_check=(line,))
    assert found[:2] == ("error", subject)
    assert message in found[2]
