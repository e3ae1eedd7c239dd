"""Policy files: what they may say, how mistakes are reported, and what the shipped ones say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from vllm_fl.dispatch import config
from vllm_fl.dispatch.config import PolicyFile, load_policy, parse_policy, platform_policy

FUNCTIONS = frozenset(
    (Path(__file__).parents[1] / "data" / "flag_gems-5.0.2-functions.txt").read_text().split()
)
SHIPPED = ("ascend", "cpu", "nvidia")


def parsed(text: str) -> PolicyFile:
    return parse_policy(text, "policy.yaml")


def test_every_key() -> None:
    policy = parsed(
        """
        prefer: vendor
        strict: true
        allow_vendors: [cuda, acme]
        deny_vendors: [acme]
        op_backends:
          rms_norm: [vendor:acme, impl:reference.torch]
          silu_and_mul: flagos | reference
        flagos_blacklist: [mm, {source: "issue 1", functions: [add, mm]}]
        flaggems_version: 5.0.2
        oot_blacklist: [fused_moe]
        io_dump:
          dir: /data/dump
          ops: [mm]
          modules: [Linear]
          layers: [0, 1-3, "model.*"]
          max_calls: 5
          step_range: 5-15
          rank: [0, 2]
          with_print: true
          with_torch_funcs: false
          with_metas: true
          with_values: false
          bg_workers: 2
        """
    )
    assert policy == PolicyFile(
        prefer="vendor",
        strict=True,
        allow_vendors=("cuda", "acme"),
        deny_vendors=("acme",),
        op_backends=(
            ("rms_norm", ("vendor:acme", "impl:reference.torch")),
            ("silu_and_mul", ("flagos", "reference")),
        ),
        flagos_blacklist=("mm", "add"),
        flaggems_version="5.0.2",
        oot_blacklist=("fused_moe",),
        io_dump={
            "io_dump": "/data/dump",
            "io_dump_ops": ("mm",),
            "io_dump_modules": ("Linear",),
            "io_dump_layers": ("0", "1-3", "model.*"),
            "io_dump_max_calls": 5,
            "io_dump_step_range": (5, 15),
            "io_dump_rank": (0, 2),
            "io_dump_with_print": True,
            "io_dump_with_torch_funcs": False,
            "io_dump_with_metas": True,
            "io_dump_with_values": False,
            "io_dump_bg_workers": 2,
        },
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("preferr: vendor", "unknown key 'preferr'; perhaps you meant 'prefer'"),
        ("per_op: {rms_norm: vendor}", "unknown key 'per_op'"),
        ("prefer: gems", "prefer must be one of flagos, vendor, reference, not 'gems'"),
        ('strict: "false"', "strict must be true or false, without quotes, not 'false'"),
        ("strict: 1", "strict must be true or false"),
        ("allow_vendors: cuda", "allow_vendors must be a list of names"),
        ("deny_vendors: [1]", "deny_vendors must be a list of names"),
        ("op_backends: [rms_norm]", "op_backends must map operators"),
        ("op_backends: {rms_norm: []}", "'rms_norm' needs at least one backend"),
        ("op_backends: {rms_norm: fast}", "op_backends.rms_norm: 'fast' names no backend"),
        ("op_backends: {rms_norm: 'vendor||flagos'}", "op_backends.rms_norm must be a list of names"),
        ("flagos_blacklist: mm", "flagos_blacklist must be a list"),
        ("flagos_blacklist: [{functions: [mm]}]", "needs both 'source' and 'functions'"),
        (
            "flagos_blacklist: [{source: x, function: [mm]}]",
            "unknown key 'function'; perhaps you meant 'functions'",
        ),
        ("flaggems_version: 5.0", "flaggems_version must be a text, not 5.0"),
        ("{flagos_whitelist: [mm], flagos_blacklist: [add]}", "exclude each other"),
        ("oot_blacklist: [layer_norm]", "names unknown layers layer_norm"),
        ("io_dump: {folder: x}", "unknown key 'folder'"),
        ("io_dump: {step_range: 5}", "step_range must be of the form"),
        ("io_dump: {max_calls: -1}", "max_calls must be a whole number"),
        ("io_dump: {max_calls: true}", "max_calls must be a whole number"),
        ("io_dump: {rank: first}", "rank must be 'all', a rank or a list"),
        ("io_dump: yes", "io_dump must be a mapping"),
        ("prefer: vendor\nprefer: flagos", r"key 'prefer' appears twice \(line 2\)"),
        ("op_backends: {a: vendor, a: flagos}", "key 'a' appears twice"),
        ("[1, 2]", "must be a mapping"),
        ("prefer: [", "is not a policy file"),
        ("prefer: !!python/object/apply:os.system ['true']", "is not a policy file"),
    ],
)
def test_mistakes_are_refused_with_file_and_key(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parsed(text)
    assert str(caught.value).startswith("policy.yaml")


def test_an_empty_file_says_nothing() -> None:
    assert parsed("# only a comment") == PolicyFile()


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    with pytest.raises(FileNotFoundError):
        load_policy(str(path))
    path.write_text("prefer: reference")
    assert load_policy(str(path)).prefer == "reference"


def test_devices_without_a_policy_have_an_empty_one() -> None:
    assert platform_policy("toaster") == PolicyFile()
    assert platform_policy(None) == PolicyFile()


def test_every_shipped_policy_is_valid_and_belongs_to_a_device() -> None:
    from vllm_fl.devices.detect import DEVICES

    shipped = {path.stem for path in Path(config.__file__).parent.glob("*.yaml")}
    assert shipped == set(SHIPPED) == {device.name for device in DEVICES}
    for name in shipped:
        platform_policy(name)


def test_the_reference_device_uses_formulas_only() -> None:
    assert platform_policy("cpu").prefer == "reference"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_listed_function_exists_in_the_pinned_flaggems(name: str) -> None:
    policy = platform_policy(name)
    listed = {*(policy.flagos_blacklist or ()), *(policy.flagos_whitelist or ())}
    assert not listed or policy.flaggems_version == "5.0.2"
    assert listed <= FUNCTIONS


def test_B18_B19_field_reports_are_in_the_ascend_blacklist_with_their_source() -> None:
    content = yaml.safe_load((Path(config.__file__).parent / "ascend.yaml").read_text())
    for group in content["flagos_blacklist"]:
        assert "flagos-ai/" in group["source"], group
    listed = set(platform_policy("ascend").flagos_blacklist or ())
    reported = {"mm", "softmax", "cos", "sin", "rsqrt", "silu", "sort", "sort_stable", "cumsum", "ones_like"}
    reported |= {
        "eq",
        "ge",
        "gt",
        "lt",
        "le",
        "uniform_",
        "index_put_",
        "gather",
        "lift_fresh_copy",
        "to_copy",
    }
    assert reported <= listed


def test_ascend_orders() -> None:
    orders = dict(platform_policy("ascend").op_backends or ())
    for op in ("attention_backend", "rms_norm", "rotary_embedding"):
        assert orders[op] == ("vendor", "flagos", "reference")
    assert orders["silu_and_mul"] == ("flagos", "vendor", "reference")
