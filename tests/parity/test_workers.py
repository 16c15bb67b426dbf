"""Rows at several workers: model files have the bytes of rows in memory, whoever the workers are."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.laws.lossy_workers import Lossy, register_lossy, shuffled_arrival
from tests.making import units

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans, VonMisesFisherMixture, load, open_rows, save
from armillary.engines.select import engine
from armillary.exceptions import ArchiveError, InputError, InputTypeError, ParameterError, RowError
from armillary.persistence import Checkpoint, fit_checkpoints

N_ROWS, N_FEATURES = 16_500, 48  # eight lanes
MODELS = {
    "k-means": lambda: SphericalKMeans(9, random_state=0),
    "DP": lambda: DPvMFMeans(max_angle=1.0, max_iter=6),
    "mixture": lambda: VonMisesFisherMixture(5, random_state=0, max_iter=4),
    "DDP": lambda: DDPvMFMeans(max_angle=1.0),
}
every_model = pytest.mark.parametrize("name", list(MODELS))
pytestmark = pytest.mark.filterwarnings("ignore:.*used all")


@pytest.fixture(scope="module")
def rows():
    """Rows in the order of twelve clusters: some are born in every part, and come nowhere before."""
    rng = np.random.default_rng(5)
    centers = units(rng, 12, N_FEATURES)
    return (np.repeat(centers, N_ROWS // 12, axis=0) + 0.07 * rng.standard_normal((N_ROWS, N_FEATURES))).astype("f4")


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """The bytes of each model fitted in memory."""
    folder = tmp_path_factory.mktemp("models")
    return {name: file_of(make().fit(rows), folder) for name, make in MODELS.items()}


def file_of(model, folder):
    model.set_params(n_threads=None, callbacks=None)
    save(model, folder / "model")
    return (folder / "model").read_bytes()


def shards(rows, edges, folder):
    folder.mkdir()
    for number, part in enumerate(np.split(rows, edges)):
        np.save(folder / f"{number}.npy", part)
    return folder


@every_model
@pytest.mark.parametrize("n_workers", [1, 2, 4, 7])
def test_files_have_one_content_for_any_number_of_workers_though_some_are_lost(
    name, n_workers, rows, files, tmp_path, monkeypatch
):
    register_lossy()
    shuffled_arrival(monkeypatch, n_workers)
    model = MODELS[name]().fit(Lossy(rows, n_workers, seed=n_workers))
    assert file_of(model, tmp_path) == files[name]
    assert model.device_ == "lossy"
    assert engine("lossy").traffic.n_lost > 0


def test_births_come_from_every_part(rows, files, tmp_path):
    (tmp_path / "model").write_bytes(files["DP"])
    labels = load(tmp_path / "model").labels_
    firsts = [np.flatnonzero(labels == cluster)[0] for cluster in range(labels.max() + 1)]
    assert set(np.array(firsts) * 7 // N_ROWS) == set(range(7))


def test_an_iteration_sends_the_directions_to_each_worker_and_the_sums_back(rows):
    register_lossy()
    n_clusters, n_workers = 30, 2
    table = n_clusters * N_FEATURES * 8
    for model, methods in (
        (SphericalKMeans(n_clusters, init=rows[:n_clusters], max_iter=4, tol=0.0), {"label": (1, 1)}),
        (
            VonMisesFisherMixture(n_clusters, init=rows[:n_clusters], max_iter=4, tol=0.0),
            {"shared_lanes": (1, 0), "onto": (1, 2)},
        ),
    ):
        model.fit(Lossy(rows, n_workers, share=0.0))
        counted = engine("lossy").traffic.by_method
        for method, (n_out, n_in) in methods.items():
            messages, bytes_out, bytes_in = counted[method]
            assert messages in (4 * n_workers, 5 * n_workers)  # the last labels under the last directions
            # beside K x D: counts, offsets, what names them; the first part has no sums before it
            n_small = 2 * 8 * n_clusters + 1200
            assert bytes_out <= messages * (n_out * table + n_small)
            assert bytes_in <= messages * (max(1, n_in) * table + n_small if n_in else n_small)
        # all else of the fit is less than the labels that come home: 4 bytes a row
        others = {name: sizes for name, sizes in counted.items() if name not in methods}
        assert sum(one + other for _, one, other in others.values()) < 4 * N_ROWS + 40_000 + 8 * table


def test_a_history_begins_with_the_labels_where_it_is_longer(rows, files, tmp_path, monkeypatch):
    monkeypatch.setattr("armillary.engines.remote._SHORT_HISTORY", 0)
    register_lossy()
    # so many rows have no short history: the labels of a few are longer
    model = MODELS["DP"]().fit(Lossy(rows, 2, seed=3))
    assert file_of(model, tmp_path) == files["DP"]
    assert engine("lossy").traffic.by_method["put"][0] > 0


# ---------------------------------------------------------------------------------------------------- processes


class KillOne:
    """Kill a worker of some rows at one step of a fit."""

    def __init__(self, rows, step=2):
        self.rows, self.step, self.killed = rows, step, None

    def __call__(self, event):
        if event.kind == "step" and event.step == self.step and self.killed is None:
            self.killed = self.rows.held("processes", None).pids[0]
            os.kill(self.killed, signal.SIGKILL)


def is_there(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_processes_of_which_one_is_killed_have_the_bytes_of_memory(rows, files, tmp_path):
    folder = shards(rows, [1, 5000, 9001], tmp_path / "rows")
    with open_rows(folder, n_workers=2) as dealt:
        killer = KillOne(dealt)
        model = MODELS["k-means"]().set_params(callbacks=killer).fit(dealt)
        assert killer.killed is not None
        assert engine("workers").traffic.n_lost == 1
        assert file_of(model, tmp_path) == files["k-means"]
        pids = dealt.held("processes", None).pids
        assert len(pids) == 2  # they wait for the next call
        np.testing.assert_array_equal(model.predict(dealt), model.labels_)
        assert sorted(dealt.held("processes", None).pids) == sorted(pids)
        mixture = MODELS["mixture"]().fit(dealt)
        assert file_of(mixture, tmp_path) == files["mixture"]
        bad = rows.copy()
        bad[12_345] = 0.0
        np.save(folder / "2.npy", bad[5000:9001])
        with pytest.raises(InputError, match="must stay as it is"):
            model.predict(dealt)
    assert not any(is_there(pid) for pid in pids)


_FIT = """
import sys, time
import numpy as np
from armillary import SphericalKMeans, open_rows
rows = open_rows(sys.argv[1], n_workers=2)
def tell(event):
    if event.kind == "step":
        print(*rows.held("processes", None).pids, flush=True)
        time.sleep(0.05)
SphericalKMeans(9, random_state=0, init="random", n_init=500, callbacks=tell).fit(rows)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
@pytest.mark.slow
def test_no_process_is_left_behind(end, rows, tmp_path):
    """Without a guard of `__main__`: workers do not import the script."""
    folder = shards(rows, [9000], tmp_path / "rows")
    host = subprocess.Popen(
        [sys.executable, "-c", _FIT, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    pids = [int(word) for word in host.stdout.readline().split()]
    assert len(pids) == 2
    host.send_signal(end)
    _, said = host.communicate(timeout=60)
    assert host.returncode != 0
    assert ("KeyboardInterrupt" in said) == (end == signal.SIGINT)
    deadline = time.monotonic() + 30
    while any(is_there(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(is_there(pid) for pid in pids)


# Where rows are cut in five ways: one piece, one row alone, two, uneven ones, many.
CUTS = ([], [1], [8000], [100, 200, 300, 16_499], list(range(1000, 16_000, 1000)))
NUMBERS = (1, 2, 4, 7)


def design(n_workers, n_models):
    """Which cuts each model gets for so many workers: over the four numbers, each model gets all five."""
    first = 2 * NUMBERS.index(n_workers)
    return [[(first + model + one) % len(CUTS) for one in (0, 1)] for model in range(n_models)]


def test_the_design_has_every_cut_for_every_model():
    for model in range(4):
        assert {cut for n_workers in NUMBERS for cut in design(n_workers, 4)[model]} == set(range(len(CUTS)))


@pytest.mark.parametrize("n_workers", NUMBERS)
@pytest.mark.slow
def test_processes_have_one_content_for_every_number_and_partitioning(n_workers, rows, files, tmp_path, monkeypatch):
    shuffled_arrival(monkeypatch, n_workers)
    for name, cuts in zip(MODELS, design(n_workers, len(MODELS)), strict=True):
        for cut in cuts:
            with open_rows(shards(rows, CUTS[cut], tmp_path / f"{name}{cut}"), n_workers=n_workers) as dealt:
                killer = KillOne(dealt, step=1) if name != "DDP" else None  # whose fit is one step
                model = MODELS[name]().set_params(callbacks=killer, n_threads=1).fit(dealt)
                assert killer is None or killer.killed is not None
                assert file_of(model, tmp_path) == files[name]


# ----------------------------------------------------------------------------------------------------- sentences


def test_a_row_without_direction_is_named_by_its_number_and_place(rows, tmp_path):
    register_lossy()
    bad = rows.copy()
    bad[12_345] = 0.0
    with pytest.raises(RowError, match="Row 12345 of X") as caught:
        SphericalKMeans(3, random_state=0).fit(Lossy(bad, 4))
    assert caught.value.row == 12_345


def test_wrong_numbers_of_workers_are_refused(rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows[:10])
    for wrong in (0, True, 2.5, "spark"):
        with pytest.raises(ParameterError, match="`n_workers` of open_rows must be an int from 1 to 1024; got"):
            open_rows(tmp_path / "rows.npy", n_workers=wrong)
    with pytest.raises(InputTypeError, match="must be rows on disk that are dealt to workers"):
        SphericalKMeans(2, device="workers").fit(rows[:10])


def test_what_rows_in_parts_cannot_do_is_said(rows):
    register_lossy()
    with pytest.raises(InputError, match="must be in memory here"):
        SphericalKMeans(2, missing="flag").fit(Lossy(rows, 2))
    with pytest.raises(InputError, match="must be taken in their order"):
        DPvMFMeans(max_angle=1.0, n_init=2, random_state=0).fit(Lossy(rows, 2))


def test_workers_that_are_lost_again_and_again_are_given_up(rows):
    register_lossy()
    with pytest.raises(RuntimeError, match="lost 5 times in a row"):
        SphericalKMeans(2, random_state=0).fit(Lossy(rows, 2, share=1.0))


# --------------------------------------------------------------------------------------------------- checkpoints


class EnoughError(Exception):
    """Ends a fit."""


class StopAt:
    """End a fit at one step."""

    def __init__(self, step):
        self.step = step

    def __call__(self, event):
        if event.kind == "step" and event.step == self.step:
            raise EnoughError


@pytest.mark.parametrize("name", ["k-means", "DP", "mixture"])
def test_a_fit_goes_on_where_it_was_ended_and_repeats_nothing(name, rows, files, tmp_path):
    register_lossy()
    path = tmp_path / "fit.checkpoint"

    def fit(n_workers, step):
        model = MODELS[name]().set_params(random_state=0, callbacks=[Checkpoint(path), StopAt(step)])
        return model.fit(Lossy(rows, n_workers, seed=step, share=0.02))

    fit_whole = MODELS[name]().set_params(random_state=0)
    n_steps = fit_whole.fit(Lossy(rows, 3, share=0.0)).n_iter_
    counted = engine("lossy").traffic
    wanted = file_of(fit_whole, tmp_path)
    n_passes = 0
    for step in range(1, n_steps + 1):
        with pytest.raises(EnoughError):
            fit(3 if step == 1 else 2, step)
        n_passes += passes_of(engine("lossy").traffic)
    model = fit(7, n_steps + 1)
    assert file_of(model, tmp_path) == wanted
    n_passes += passes_of(engine("lossy").traffic)
    assert n_passes <= passes_of(counted)  # those of the history are within the messages that needed them
    again = fit(1, n_steps + 1)
    assert file_of(again, tmp_path) == wanted
    assert set(engine("lossy").traffic.by_method) == {"sum", "unit_rows"}  # a look at whether they are the same rows


def passes_of(traffic):
    return sum(traffic.by_method.get(method, (0, 0, 0))[0] for method in ("label", "shared_lanes", "lower", "fold"))


def test_a_file_that_was_cut_anywhere_goes_on(rows, files, tmp_path):
    register_lossy()
    path = tmp_path / "fit.checkpoint"

    def fit():
        model = MODELS["k-means"]().set_params(callbacks=Checkpoint(path))
        return file_of(model.fit(Lossy(rows, 2, share=0.0)), tmp_path)

    assert fit() == files["k-means"]
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for length in [0, 3, 8, 30, *rng.integers(8, len(content), 8).tolist(), len(content) - 1]:
        path.write_bytes(content[:length])
        assert fit() == files["k-means"]
        assert path.stat().st_size == len(content)  # each answer once; those of several parts in any order


def test_what_is_no_checkpoint_of_this_fit_is_refused(rows, tmp_path):
    register_lossy()
    path = tmp_path / "fit.checkpoint"
    kept = Checkpoint(path)
    SphericalKMeans(3, random_state=0, callbacks=kept).fit(Lossy(rows, 2))
    with pytest.raises(ArchiveError, match=r"must be of the same fit; it differs in n_clusters\."):
        SphericalKMeans(4, random_state=0, callbacks=kept).fit(Lossy(rows, 2))
    with pytest.raises(ArchiveError, match=r"must be of the same fit; it differs in rows\."):
        SphericalKMeans(3, random_state=0, callbacks=kept).fit(Lossy(rows[:-1], 2))
    other = np.concatenate([rows[:5], rows[6:7], rows[5:6], rows[7:]])
    other[5] = -other[5]
    with pytest.raises(ArchiveError, match=r"must be of the same fit; it differs in what its rows are\."):
        SphericalKMeans(3, random_state=0, callbacks=kept).fit(Lossy(other, 2))
    with pytest.raises(ParameterError, match="`random_state` of SphericalKMeans with a Checkpoint must be an int >= 0"):
        SphericalKMeans(3, callbacks=kept).fit(Lossy(rows, 2))
    with pytest.raises(InputError, match="with a Checkpoint must be at workers; got rows of the engine 'cpu'"):
        SphericalKMeans(3, random_state=0, callbacks=kept).fit(rows)
    path.write_bytes(b"PAR1 and more")
    with pytest.raises(ArchiveError, match="must be a checkpoint of a fit; it is something else"):
        SphericalKMeans(3, random_state=0, callbacks=kept).fit(Lossy(rows, 2))
    assert path.read_bytes() == b"PAR1 and more"
    with pytest.raises(ArchiveError, match="a step of DDPvMFMeans is not kept"):
        DDPvMFMeans(max_angle=1.0, callbacks=Checkpoint(tmp_path / "other")).fit(Lossy(rows, 2))
    with pytest.raises(ArchiveError, match="got object from the rows"):
        fit_checkpoints._packed({"value": object()})


_KILLED = """
import sys
from armillary import *
from armillary.persistence import Checkpoint
with open_rows(sys.argv[1], n_workers=2) as rows:
    made = eval(sys.argv[4]).set_params(random_state=0, callbacks=Checkpoint(sys.argv[2])).fit(rows)
save(made.set_params(callbacks=None), sys.argv[3])
"""


@pytest.mark.parametrize(
    "made",
    [
        "SphericalKMeans(9, tol=0.0)",
        "SphericalKMeans(9, balance=1.2, max_iter=10)",
        "SphericalKMeans(9, init='k-means||', batch_size=4000, max_iter=6)",
        "DPvMFMeans(max_angle=1.0, max_iter=6)",
        "VonMisesFisherMixture(5, max_iter=4)",
        "HierarchicalSphericalKMeans((3, 9), n_resamples=1, max_iter=5)",
    ],
)
@pytest.mark.slow
def test_a_fit_that_is_killed_at_any_moment_comes_to_the_same_end(made, rows, tmp_path):
    folder = shards(rows, [9000], tmp_path / "rows")
    kept, model = tmp_path / "fit.checkpoint", tmp_path / "model"
    command = [sys.executable, "-c", _KILLED, str(folder), str(kept), str(model), made]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wanted = model.read_bytes()
    size = kept.stat().st_size
    for share in (0.05, 0.4, 0.8):
        kept.unlink(missing_ok=True)
        model.unlink()
        host = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while host.poll() is None and (not kept.exists() or kept.stat().st_size < share * size):
            time.sleep(0.001)
        host.kill()
        host.wait()
        # on a machine that does other work it may have been quicker than the kill
        assert not model.exists() or model.read_bytes() == wanted
        model.unlink(missing_ok=True)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert model.read_bytes() == wanted
        assert kept.stat().st_size == size  # each answer once
