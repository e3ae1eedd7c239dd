"""What tells the absence of a host's driver from a broken package."""

import pytest

from flbuild.verify.run.drivers import Driver, load_drivers, missing_libraries

HAL = "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"
HCCL = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"


def test_every_driver_names_libraries():
    drivers = load_drivers()
    assert set(drivers) == {"cann", "cuda"}
    assert all(driver.libraries and driver.device for driver in drivers.values())


def test_a_chain_that_stops_at_the_drivers_library_is_explained():
    assert load_drivers()["cann"].explains([HAL]) == "libascend_hal.so"
    assert load_drivers()["cuda"].explains(["OSError: libcuda.so.1: cannot open shared object file"])


@pytest.mark.parametrize("errors", [[HCCL], ["ModuleNotFoundError: No module named 'decorator'"], []])
def test_what_stops_elsewhere_is_not(errors):
    assert load_drivers()["cann"].explains(errors) is None


def test_the_library_that_stopped_the_import_counts_not_one_that_was_tried_before():
    driver = Driver("cann", "Ascend", ("libascend_hal.so",))
    assert missing_libraries([HCCL, HAL]) == ["libhccl.so", "libascend_hal.so"]
    assert driver.explains([HCCL, HAL]) is None
