from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest

SETUP = """
import torch
from torch.utils.cpp_extension import CUDA_HOME, ROCM_HOME
assert torch.version.cuda is torch.version.hip is torch.version.xpu is None
assert CUDA_HOME is ROCM_HOME is None
"""


def run(code):
    folder = files("flbuild.wheel") / "empty_torch"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_stand_in_answers_what_the_setup_script_asks():
    done = run(SETUP)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("question", ["torch.cuda.is_available()", "torch.tensor([1])", "torch.__version__"])
def test_any_other_question_names_itself(question):
    done = run(f"import torch; {question}")
    asked = question.split(".")[1].partition("(")[0]
    assert f"asked for torch.{asked}, which needs the real torch" in done.stderr
