from __future__ import annotations


def test_B04_forbidden_distributions_are_found_by_pattern(case):
    case.recipe["forbid"] = ["nvidia-*"]
    case.add("nvidia-cublas-cu12", "12.8")
    (error,) = case.errors("forbidden")
    assert error.startswith(
        "nvidia-cublas-cu12: 12.8 is installed at /usr/local/lib/python3.11/dist-packages/nvidia"
    )
    assert error.endswith("the recipe forbids 'nvidia-*'")


def test_B04_other_names_are_let_pass(case):
    case.recipe["forbid"] = ["nvidia-*", "triton"]
    case.add("triton-kernels", "1.0")
    assert case.errors("forbidden") == []


def test_B14_a_forbidden_distribution_in_an_unread_base_is_found_too(case, carried):
    case.image_base = True
    case.inventory = (carried("triton", "3.2"),)
    case.recipe["forbid"] = ["triton"]
    (error,) = case.errors("forbidden")
    assert error.startswith("triton: 3.2 is installed")
