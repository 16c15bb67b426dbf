"""What is compiled is bounded: a version of a kernel is a second of everybody's first fit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# types of rows (2 of dense, 2 of CSR), options that are there or not, and two numbers of columns that are unrolled
MOST_OF_A_KERNEL = 6

PROGRAM = """
import json, sys, warnings
from armillary.cli.model_names import MODELS
from armillary.cli.screen import Screen
from armillary.cli.warming import warm
from armillary.kernels.jit import versions

warnings.simplefilter("ignore")
warm(sys.argv[1:] or list(MODELS), Screen(quiet=True))
print(json.dumps(versions()))
"""


# two models reach the kernels that most others share, with 47 versions of 22 kernels; all have 93 of 49
@pytest.mark.parametrize(
    ("names", "fewest_kernels", "most"),
    [(["skmeans", "dp"], 20, 47), pytest.param([], 40, 93, marks=pytest.mark.slow)],
    ids=["two models", "all models"],
)
def test_models_on_every_kind_of_rows_make_few_versions_of_a_kernel(names, fewest_kernels, most):
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=True)
    made = json.loads(done.stdout.splitlines()[-1])
    assert len(made) > fewest_kernels  # kernels were counted
    assert {name: number for name, number in made.items() if number > MOST_OF_A_KERNEL} == {}
    assert sum(made.values()) <= most
