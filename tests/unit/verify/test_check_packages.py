from __future__ import annotations


def test_B11_a_locked_distribution_that_is_missing_is_an_error(case):
    case.drop("numpy")
    assert case.errors("packages") == ["numpy: it is missing; the lock says 1.26.4"]


def test_B02_B26_a_distribution_in_another_version_is_an_error(case):
    case.drop("numpy")
    case.install("numpy", "2.3.5")
    assert case.errors("packages") == ["numpy: 2.3.5 is installed, the lock says 1.26.4"]


def test_B02_what_the_base_provides_must_not_move(case, carried):
    case.image_base = True
    case.inventory = (carried("torch-npu", "2.10.0"),)
    case.recipe["base"] = {"image": "quay.io/team/base:v1", "provides": {"torch-npu": "2.10.0"}}
    assert case.errors("packages") == []
    case.install("torch-npu", "2.11.0")
    errors = case.errors("packages")
    assert "torch-npu: 2.11.0 is installed, the base provides 2.10.0" in errors


def test_a_distribution_that_nobody_asked_for_is_an_error(case):
    case.install("surprise", "1.0")
    assert case.errors("packages") == ["surprise: 1.0 is installed, and neither lock nor base has it"]


def test_the_plugin_itself_is_expected_even_if_no_output_records_it(case):
    case.recorded = False
    assert case.errors("packages") == []


def test_another_version_of_the_plugin_than_the_recorded_one_is_an_error(case, installed_files):
    case.plugin = installed_files("vllm-plugin-fl", "0.9.0")
    assert case.errors("packages") == ["vllm-plugin-fl: 0.9.0 is installed, the lock says 1.2.0"]


def test_what_the_base_carries_counts_without_reading_its_layers(case, carried):
    case.image_base = True
    case.inventory = (carried("pip"),)
    assert case.errors("packages") == []
    assert case.verification().view.read == [1, 2]


def test_what_a_layer_hides_of_the_base_is_missing(case, carried):
    case.image_base = True
    case.inventory = (carried("pip"),)
    case.files["usr/local/lib/python3.11/dist-packages/.wh.pip-1.0.dist-info"] = b""
    assert case.errors("packages") == ["pip: it is missing; the base's inventory says 1.0"]


def test_what_the_recipe_removes_must_be_hidden(case, carried):
    case.image_base = True
    case.inventory = (carried("triton"),)
    case.recipe["base"] = {"image": "quay.io/team/base:v1", "remove": ["triton"]}
    assert case.errors("packages") == ["triton: 1.0 of the base is still there, the recipe removes it"]
    case.files["usr/local/lib/python3.11/dist-packages/.wh.triton-1.0.dist-info"] = b""
    assert case.errors("packages") == []


def test_what_is_installed_twice_is_an_error(case, installed_files):
    case.files.update(installed_files("numpy", "1.26.4", site="opt/lib/site-packages"))
    (error,) = case.errors("packages")
    assert error.startswith(
        "numpy: it is installed 2 times: /opt/lib/site-packages/numpy-1.26.4.dist-info, /usr/"
    )


def test_a_distribution_of_a_read_base_that_is_gone_is_missing(case, carried, installed_files):
    case.inventory = (carried("six"),)
    case.base |= installed_files("six", "1.0")
    assert case.errors("packages") == []
    case.files["usr/local/lib/python3.11/dist-packages/.wh.six-1.0.dist-info"] = b""
    assert case.errors("packages") == ["six: it is missing; the base's inventory says 1.0"]


def test_spellings_of_one_version_are_equal(case):
    case.packages["numpy"] = "1.26.4.0"
    assert case.errors("packages") == []


def test_what_the_inventory_lists_and_a_read_base_does_not_have_is_missing(case, carried):
    case.inventory = (carried("six"),)
    assert case.errors("packages") == ["six: it is missing; the base's inventory says 1.0"]


def test_what_has_no_metadata_of_the_current_form_counts_if_it_is_there(case, carried):
    location = "/usr/lib/python3/dist-packages/six-1.0.egg-info"
    case.inventory = (carried("six", location=location),)
    case.base[location.lstrip("/")] = b"Name: six\nVersion: 1.0\n"
    assert case.errors("packages") == []
