from __future__ import annotations

from flbuild.settings import index_variable, registry_variable


def test_variables_are_named_after_what_they_redirect(load):
    assert index_variable("pytorch-cpu") == "FLBUILD_INDEX_PYTORCH_CPU_URL"
    assert registry_variable("quay.io") == "FLBUILD_REGISTRY_QUAY_IO_MIRROR"
    settings = load(
        **{index_variable("cann"): "https://a.example", registry_variable("reg:5000"): "b.example"}
    )
    assert settings.index("cann").url == "https://a.example"
    assert settings.registry("reg:5000").mirror == "b.example"
