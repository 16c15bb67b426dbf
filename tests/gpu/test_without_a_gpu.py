"""What users hear where there is no GPU, or no package for one: one sentence, and nothing goes elsewhere in silence."""

import json
import sys

import numpy as np
import pytest
from tests.gpu.here import has_cuda
from typer.testing import CliRunner

import armillary
from armillary.cli.app import app
from armillary.engines import select
from armillary.exceptions import ParameterError

pytestmark = pytest.mark.skipif(has_cuda(), reason="there is a GPU here")
ROWS = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2]]


class NoTorch:
    """Finds that there is no torch. None in `sys.modules` would trouble SciPy, which looks there."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


@pytest.fixture
def _no_torch(monkeypatch):
    """As where the extra is not installed."""
    monkeypatch.setattr(sys, "meta_path", [NoTorch(), *sys.meta_path])
    gone = ("torch", "armillary.engines.cuda", "armillary.kernels.gpu")
    for name in [name for name in sys.modules if name.startswith(gone)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(select, "_made", {})


@pytest.mark.usefixtures("_no_torch")
def test_a_missing_extra_is_one_sentence():
    with pytest.raises(ParameterError, match=r"got 'cuda', and torch is not installed\. Install 'armillary\[gpu\]'"):
        armillary.SphericalKMeans(2, device="cuda").fit(ROWS)


@pytest.mark.parametrize("error", [OSError, ImportError])
def test_packages_that_do_not_load_are_one_sentence(error, monkeypatch):
    as_before = select.importlib.import_module

    def broken(module, *given):
        if module in ("armillary.engines.cuda", "armillary.engines.dask"):
            raise error("libcublas.so.12: cannot open shared object file")
        return as_before(module, *given)

    monkeypatch.setattr(select.importlib, "import_module", broken)
    monkeypatch.setattr(select, "_made", {})
    with pytest.raises(ParameterError, match=r"got 'cuda', and one of them does not load: libcublas.so.12: cannot"):
        armillary.SphericalKMeans(2, device="cuda").fit(ROWS)
    assert not select.gpu_in_words()[0]
    with pytest.raises(error, match="libcublas"):
        select._imported("armillary.engines.dask")


@pytest.mark.usefixtures("_no_torch")
def test_auto_is_the_cpu_where_there_is_no_gpu():
    assert armillary.SphericalKMeans(2, device="auto", random_state=0).fit(ROWS).device_ == "cpu"


@pytest.mark.usefixtures("_no_torch")
def test_info_says_what_is_here():
    found = CliRunner().invoke(app, ["info"])
    assert found.exit_code == 0
    assert "gpu           none: `device` must have its packages here" in found.output
    assert not json.loads(CliRunner().invoke(app, ["info", "--json"]).output)["has_gpu"]


@pytest.mark.usefixtures("_no_torch")
def test_the_command_line_takes_a_device(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    call = ["cluster", str(tmp_path / "rows.npy"), "--model", "skmeans", "-k", "2", "--no-report", "-o"]
    fine = CliRunner().invoke(app, [*call, str(tmp_path / "out"), "--device", "cpu"])
    assert fine.exit_code == 0, fine.output
    assert armillary.load(tmp_path / "out" / "model.safetensors").device is None
    refused = CliRunner().invoke(app, [*call, str(tmp_path / "other"), "--device", "cuda"])
    assert isinstance(refused.exception, ParameterError)
    assert "torch is not installed" in str(refused.exception)
    assert not (tmp_path / "other").exists()
    unnamed = CliRunner().invoke(app, ["cluster", str(tmp_path / "rows.npy"), "--device", "cuda"])
    assert "--device belongs to a model that is named" in str(unnamed.exception)


class OnGpu:
    """Rows that say they live on a GPU."""

    shape = (6, 3)

    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.usefixtures("_no_torch")
def test_rows_on_a_gpu_are_not_taken_elsewhere():
    with pytest.raises(ParameterError, match="torch is not installed"):
        armillary.SphericalKMeans(2).fit(OnGpu())
    with pytest.raises(ParameterError, match="must be None, 'auto' or 'cuda' for X of class OnGpu"):
        armillary.SphericalKMeans(2, device="cpu").fit(OnGpu())
