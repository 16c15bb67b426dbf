"""Dask and Ray: their objects as X, their workers lost, and model files with the bytes of rows in memory."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from tests.laws.lossy_workers import shuffled_arrival
from tests.parity.test_workers import CUTS, MODELS, N_ROWS, NUMBERS, design, file_of, files, rows, shards  # noqa: F401

from armillary import AutoClusterer, SphericalKMeans, VonMisesFisherMixture, open_rows
from armillary.engines.dask import DaskStation, _Company, _Watch
from armillary.engines.desk import NOTHING
from armillary.engines.executors import StationLostError, WorkersLostError
from armillary.engines.ray import RayStation, _joined
from armillary.engines.select import engine
from armillary.exceptions import InputError, InputTypeError, RowError
from armillary.persistence import Checkpoint

LOOPBACK = "127.0.0.1:0"
pytestmark = [pytest.mark.filterwarnings("ignore:.*used all"), pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def dask_array():
    pytest.importorskip("distributed", reason="needs the extra dask")
    return pytest.importorskip("dask.array", reason="needs the extra dask")


@pytest.fixture(scope="module")
def client(dask_array):
    """Three workers within this process."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=False,
            dashboard_address=LOOPBACK,
            protocol="inproc",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


# five partitionings of rows, and of columns
CHUNKS = [
    (N_ROWS, 48),
    ((1, N_ROWS - 1), 48),
    (4000, 48),
    ((100, 200, 300, N_ROWS - 600), 20),
    (1000, (1, 47)),
]
# models that are fitted at workers of Dask and of Ray
NAMES = ("k-means", "DP", "mixture")


@pytest.mark.parametrize("name", ["k-means", "DP", "mixture"])
def test_dask_arrays_of_any_chunks_have_the_bytes_of_memory(name, client, dask_array, rows, files, tmp_path):  # noqa: F811
    for chunks in CHUNKS[2:4] if name == "k-means" else CHUNKS[3:4]:
        model = MODELS[name]().fit(dask_array.from_array(rows, chunks=chunks))
        assert file_of(model, tmp_path) == files[name]
        assert model.device_ == "dask"
        assert engine("dask").traffic.n_lost == 0


def test_dask_frames_with_lists_and_with_numbers(client, rows, tmp_path):  # noqa: F811
    import dask
    import dask.dataframe as dd
    import pandas as pd

    few = rows[::8]
    plain = SphericalKMeans(5, init=few[:5], max_iter=3).fit(few)
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(pd.DataFrame({"text": ["a"] * len(few), "vector": list(few)}), npartitions=4)
        model = SphericalKMeans(5, init=few[:5], max_iter=3).fit(frame[["vector"]])
        assert file_of(model, tmp_path) == file_of(plain, tmp_path)
        assert model.n_features_in_ == 48
        np.testing.assert_array_equal(model.predict(frame["vector"]), model.labels_)
        with pytest.raises(InputTypeError, match="must be a dataframe with one column of lists, or of numbers alone"):
            SphericalKMeans(2).fit(frame[["text"]])
        numbers = dd.from_pandas(pd.DataFrame(few), npartitions=3)
        np.testing.assert_array_equal(model.predict(numbers), model.labels_)


def test_cells_of_dask_frames_that_are_no_vectors_are_named(client, rows):  # noqa: F811
    import dask
    import dask.dataframe as dd
    import pandas as pd

    few = list(rows[:60])
    with dask.config.set({"dataframe.convert-string": False}):
        ragged = dd.from_pandas(pd.DataFrame({"v": [*few, few[0][:7]]}), npartitions=2)
        with pytest.raises(
            InputError, match="A partition of X of SphericalKMeans must have vectors of one length; row"
        ):
            SphericalKMeans(2).fit(ragged)
        for empty, row in ((0, "Row 0 of X contains NaN"), (60, "Row 60 of X contains NaN")):
            cells = few.copy()
            cells.insert(empty, None)
            with pytest.raises(RowError, match=row):
                SphericalKMeans(2).fit(dd.from_pandas(pd.DataFrame({"v": cells}), npartitions=3))
        wider = dd.concat([dd.from_pandas(pd.DataFrame({"v": part}), npartitions=1) for part in (few, [few[0][:7]])])
        with pytest.raises(InputError, match="must have rows of one width; got 7, 48"):
            SphericalKMeans(2).fit(wider)
        # whole numbers beside others, and a partition without rows
        cells = [[1, 2, 3], [2, 1, 3], [0.5, 1.5, 2.5], [1.0, 0.0, 0.0]]
        frame = dd.from_pandas(pd.DataFrame({"v": cells, "n": range(4)}), npartitions=2)
        model = SphericalKMeans(2, init=np.eye(3)[:2]).fit(dd.concat([frame[frame["n"] > 9], frame])[["v"]])
        np.testing.assert_array_equal(model.labels_, SphericalKMeans(2, init=np.eye(3)[:2]).fit(cells).labels_)


def test_blocks_that_are_not_what_the_array_tells_of(client, dask_array, rows):  # noqa: F811
    array = dask_array.from_array(rows[:3000], chunks=(1000, 48))
    with pytest.raises(InputError, match=r"the rows that it tells of; a part of it has \d+ where it tells of \d+"):
        SphericalKMeans(2).fit(array.map_blocks(lambda block: block[:3], dtype="f4", meta=rows[:0]))
    masked = dask_array.ma.masked_where(dask_array.arange(3000, chunks=1000)[:, None] * np.ones(48) == 2500, array)
    with pytest.raises(RowError, match="Row 2500 of X has masked entries"):
        SphericalKMeans(2).fit(masked)
    with pytest.raises(InputError, match=r"must be in memory, since models are compared .*; got rows at workers of"):
        AutoClusterer().fit(array)


def test_dask_works_on_files_and_on_weights(client, dask_array, rows, tmp_path):  # noqa: F811
    folder = shards(rows, [5000], tmp_path / "rows")
    weights = np.random.default_rng(0).gamma(1.0, size=N_ROWS)
    made = SphericalKMeans(9, init=rows[:9], max_iter=3).fit(rows, sample_weight=weights)
    given = dask_array.from_array(weights, chunks=1000)
    for X, sample_weight in (
        (open_rows(folder, n_workers="dask"), weights),
        (dask_array.from_array(rows, chunks=(3000, 48)), given),
    ):
        found = SphericalKMeans(9, init=rows[:9], max_iter=3).fit(X, sample_weight=sample_weight)
        assert file_of(found, tmp_path) == file_of(made, tmp_path)


def listening():
    """Where this process listens."""
    import psutil

    found = psutil.Process().net_connections(kind="inet")
    return {f"{one.laddr.ip}:{one.laddr.port}" for one in found if one.status == psutil.CONN_LISTEN}


def test_without_a_client_a_worker_in_this_process_serves(dask_array, rows, tmp_path, monkeypatch):  # noqa: F811
    import distributed

    def none():
        raise ValueError

    monkeypatch.setattr(distributed, "get_client", none)
    small, places, there = rows[:1000], set(), listening()
    model = VonMisesFisherMixture(3, init=small[:3], max_iter=3, callbacks=lambda _: places.update(listening()))
    model.fit(dask_array.from_array(small, chunks=(300, 48)))
    wanted = VonMisesFisherMixture(3, init=small[:3], max_iter=3).fit(small)
    assert file_of(model, tmp_path) == file_of(wanted, tmp_path)
    assert {place.rpartition(":")[0] for place in places - there} == {"127.0.0.1"}
    assert listening() == there


def test_what_dask_cannot_give_is_said(client, dask_array, rows):  # noqa: F811
    import dask

    with pytest.raises(InputTypeError, match="must be a Dask array with two dimensions"):
        SphericalKMeans(2).fit(dask_array.from_array(rows, chunks=5000)[:, 0])
    with pytest.raises(InputTypeError, match="must be a Dask array or a Dask dataframe"):
        SphericalKMeans(2).fit(dask.delayed(rows))
    with pytest.raises(InputError, match="must be in memory here"):
        SphericalKMeans(2, missing="flag").fit(dask_array.from_array(rows, chunks=5000))
    bad = rows.copy()
    bad[9999] = np.nan
    with pytest.raises(RowError, match="Row 9999 of X"):
        SphericalKMeans(2, init=rows[:2]).fit(dask_array.from_array(bad, chunks=5000))


def test_data_that_dask_lost_for_good_is_a_sentence(client):
    data = client.scatter(np.ones((3, 2)))
    station = DaskStation(client, sorted(client.nthreads())[0], data)
    data.cancel()
    with pytest.raises(WorkersLostError, match="must stay for the length of a fit, or be something that Dask can make"):
        station.ask(NOTHING)
    station.close()


def slow_answer(desk, message, data):
    time.sleep(4.0)


def test_nobody_waits_for_a_pass_that_was_given_up(client, monkeypatch):
    """Ctrl-C closes stations while threads wait for their answers."""
    monkeypatch.setattr("armillary.engines.dask._answer", slow_answer)
    station = DaskStation(client, sorted(client.nthreads())[0], None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(station.ask, NOTHING)
        time.sleep(0.3)
        start = time.monotonic()
        station.close()
        with pytest.raises(RuntimeError, match="These workers were closed"):
            waiting.result()
    assert time.monotonic() - start < 3.0


def forget_all(client):
    """What a scheduler does over a message of a client that it fails over."""
    name = client.id

    def release(dask_scheduler):
        dask_scheduler.client_releases_keys(keys=[*dask_scheduler.tasks], client=name, stimulus_id="test")

    client.run_on_scheduler(release)


def test_a_task_that_the_scheduler_dropped_is_a_sentence(client, monkeypatch):
    monkeypatch.setattr("armillary.engines.dask._answer", slow_answer)
    monkeypatch.setattr("armillary.engines.dask._LOOK", 0.3)
    monkeypatch.setattr("armillary.engines.dask._ASK", 0.3)
    station = DaskStation(client, sorted(client.nthreads())[0], None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(station.ask, NOTHING)
        time.sleep(0.2)
        forget_all(client)
        with pytest.raises(WorkersLostError, match="scheduler of Dask must keep the tasks of a fit; it has dropped"):
            waiting.result(timeout=10.0)
    station.close()


def test_a_desk_that_was_cancelled_is_made_anew(client):
    station = DaskStation(client, sorted(client.nthreads())[0], None)
    station.ask(NOTHING)
    station._desk.cancel()
    with pytest.raises(StationLostError):
        station.ask(NOTHING)
    station.ask(NOTHING)
    station.close()


def test_a_wait_that_the_loop_of_dask_cancels_is_a_worker_that_went_away(client, monkeypatch):
    station = DaskStation(client, sorted(client.nthreads())[0], None)

    async def cancelled(self, raiseit=True):
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr("distributed.client.Future._result", cancelled)
        with pytest.raises(StationLostError):
            station.ask(NOTHING)
    station.ask(NOTHING)
    station.close()


def test_a_client_that_never_finds_its_scheduler_again_is_a_sentence(monkeypatch):
    """As one is whose way back ended with an error."""
    lost = SimpleNamespace(status="connecting")
    watch = _Watch(lost, None, _Company(lost))
    watch.look()
    monkeypatch.setattr("armillary.engines.dask._CONNECTING", 0.0)
    with pytest.raises(WorkersLostError, match="The scheduler of Dask must stay for the length of a fit"):
        watch.look()


def test_nobody_waits_for_ever_where_no_worker_works(client, monkeypatch):
    """As where a worker looks at itself for data that it has no more."""
    monkeypatch.setattr("armillary.engines.dask._LOOK", 0.2)
    monkeypatch.setattr("armillary.engines.dask._ASK", 0.2)
    monkeypatch.setattr("armillary.engines.dask._IDLE", 2.0)
    never = client.submit(np.ones, 3, resources={"nowhere": 1}, key="never")
    station = DaskStation(client, sorted(client.nthreads())[0], never)
    with pytest.raises(WorkersLostError, match="Workers of Dask must get on with a fit; for 2 seconds none did"):
        station.ask(NOTHING)
    station.close()


def test_a_slow_pass_is_waited_for(client, monkeypatch):
    monkeypatch.setattr("armillary.engines.dask._answer", slow_answer)
    monkeypatch.setattr("armillary.engines.dask._LOOK", 0.2)
    monkeypatch.setattr("armillary.engines.dask._ASK", 0.2)
    monkeypatch.setattr("armillary.engines.dask._IDLE", 2.5)
    station = DaskStation(client, sorted(client.nthreads())[0], None)
    with pytest.raises(TypeError, match="NoneType"):  # the answer, after four seconds, is no answer of a desk
        station.ask(NOTHING)
    station.close()


class KillDaskWorker:
    """Kill a worker at the second step."""

    def __init__(self, client):
        self.pids, self.is_done = list(client.run(os.getpid).values()), False

    def __call__(self, event):
        if event.kind == "step" and event.step == 2 and not self.is_done:
            self.is_done = True
            os.kill(self.pids[0], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", NUMBERS)
def test_dask_workers_of_which_one_is_killed(n_workers, dask_array, rows, files, tmp_path, monkeypatch):  # noqa: F811
    import dask
    import distributed

    shuffled_arrival(monkeypatch, n_workers)
    with (
        # a cluster gives up workers that are not back in 15 seconds, also where they were back and are killed once more
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=LOOPBACK, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for name, cuts in zip(NAMES, design(n_workers, len(NAMES)), strict=True):
            for cut in cuts:
                killer = KillDaskWorker(client)
                array = dask_array.from_array(rows, chunks=CHUNKS[cut])
                model = MODELS[name]().set_params(callbacks=killer).fit(array)
                assert killer.is_done
                assert file_of(model, tmp_path) == files[name]
                assert engine("dask").traffic.n_lost > 0
                client.wait_for_workers(n_workers, timeout=120)


def test_a_fit_goes_on_at_a_worker_that_came_when_there_was_none(dask_array, rows, tmp_path):  # noqa: F811
    import distributed

    few = rows[::8]

    def started():
        return distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=LOOPBACK, protocol="inproc"
        )

    def lose_all(event):
        if event.kind == "step" and event.step == 2:
            cluster.workers[0].data.clear()  # as the end of a process does
            cluster.sync(cluster.workers[0].close)
            threading.Timer(1.0, cluster.scale, [2]).start()  # when the next pass waits already

    for X in (
        dask_array.from_array(few, chunks=(500, 48)),
        open_rows(shards(few, [500], tmp_path / "a"), n_workers="dask"),
    ):
        with started() as cluster, distributed.Client(cluster):
            model = SphericalKMeans(5, init=few[:5], max_iter=4, tol=0.0, random_state=0, callbacks=lose_all).fit(X)
        assert file_of(model, tmp_path) == file_of(fit_here(few), tmp_path)


def test_a_lost_scheduler_leaves_a_checkpoint(dask_array, rows, tmp_path):  # noqa: F811
    import distributed

    kept = Checkpoint(tmp_path / "fit.checkpoint")
    few = rows[::8]
    array = dask_array.from_array(few, chunks=(500, 48))

    def fit(*callbacks):
        model = SphericalKMeans(5, init=few[:5], max_iter=4, tol=0.0, random_state=0, callbacks=callbacks)
        return model.fit(array)

    def lose(event):
        if event.kind == "step" and event.step == 2:
            client.close()  # what a client does that has lost its scheduler

    def cluster():
        return distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=LOOPBACK, protocol="inproc"
        )

    sentence = pytest.raises(WorkersLostError, match="The scheduler of Dask must stay")
    with cluster() as lost, distributed.Client(lost) as client, sentence:
        fit(kept, lose)
    with cluster() as another, distributed.Client(another):
        model = fit(kept)
    assert file_of(model, tmp_path) == file_of(fit_here(few), tmp_path)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_leaves_a_checkpoint(dask_array, rows, tmp_path):  # noqa: F811
    import distributed

    few, kept = rows[::8], Checkpoint(tmp_path / "fit.checkpoint")
    array = dask_array.from_array(few, chunks=(500, 48))
    steps = []

    def fit(*callbacks):
        model = SphericalKMeans(5, init=few[:5], max_iter=4, tol=0.0, random_state=0)
        return model.set_params(callbacks=[kept, lambda event: steps.append(event.kind == "step"), *callbacks]).fit(
            array
        )

    def cluster(number):
        """A scheduler and two workers, processes of their own; the address."""
        told = tmp_path / f"scheduler{number}"
        address = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", LOOPBACK, "--scheduler-file", str(told)]
        started.append(python("distributed.cli.dask_scheduler", *address))
        for _ in range(2):
            own = ["--scheduler-file", str(told), "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
            started.append(python("distributed.cli.dask_worker", *own, "--death-timeout", "60"))
        return distributed.Client(scheduler_file=str(told), timeout=20)

    def python(module, *arguments):
        return subprocess.Popen([sys.executable, "-m", module, *arguments], stderr=subprocess.DEVNULL)

    def kill(event):
        if event.kind == "step" and event.step == 2:
            started[0].kill()

    started = []
    try:
        with cluster(0) as client:
            client.wait_for_workers(2)
            with pytest.raises(WorkersLostError, match="The scheduler of Dask must stay"):
                fit(kill)
        with cluster(1) as client:
            client.wait_for_workers(2)
            model = fit()
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert file_of(model, tmp_path) == file_of(fit_here(few), tmp_path)
    assert engine("dask").traffic.by_method["label"][0] == 4 + 1 - 2  # two steps were known; few rows are one part


def fit_here(few):
    return SphericalKMeans(5, init=few[:5], max_iter=4, tol=0.0, random_state=0).fit(few)


# ------------------------------------------------------------------------------------------------------------- Ray


class KillActor:
    """Kill the actor that was asked last, at the second step."""

    def __init__(self, monkeypatch):
        self.station, self.is_done = None, False
        ask = RayStation.ask

        def noted(station, message):
            self.station = station
            return ask(station, message)

        monkeypatch.setattr(RayStation, "ask", noted)

    def __call__(self, event):
        if event.kind == "step" and event.step == 2 and not self.is_done:
            import ray

            self.is_done = True
            ray.kill(self.station.actor)


@pytest.fixture
def ray():
    found = pytest.importorskip("ray", reason="needs the extra ray")
    yield found
    found.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n_workers", NUMBERS)
def test_ray_has_the_bytes_of_memory_though_an_actor_is_killed(n_workers, ray, rows, files, tmp_path, monkeypatch):  # noqa: F811
    ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False)
    shuffled_arrival(monkeypatch, n_workers)
    for name, cuts in zip(NAMES, design(n_workers, len(NAMES)), strict=True):
        for cut in cuts:
            killer = KillActor(monkeypatch)
            folder = shards(rows, CUTS[cut], tmp_path / f"{name}{cut}")
            model = MODELS[name]().set_params(callbacks=killer).fit(open_rows(folder, n_workers="ray"))
            assert killer.is_done
            assert engine("workers").traffic.n_lost == 1
            assert file_of(model, tmp_path) == files[name]
    model = MODELS["k-means"]().fit(ray.data.from_numpy(rows))
    assert file_of(model, tmp_path) == files["k-means"]
    assert model.device_ == "ray"
    with pytest.raises(InputError, match="must have at least one row; the Ray dataset has none"):
        MODELS["k-means"]().fit(ray.data.from_numpy(rows[:0]))


def test_blocks_of_ray_whose_cells_are_no_vectors(rows):  # noqa: F811
    wide, empty = rows[:3], np.array([None, None], dtype=object)
    lists = np.empty(3, dtype=object)
    lists[:] = list(wide)
    found = _joined([wide[:0], lists, wide])
    np.testing.assert_array_equal(found, np.concatenate([wide, wide]))
    assert found.dtype == np.float32
    assert np.isnan(_joined([wide, empty])[3:]).all()  # refused by their numbers, as rows of NaN are
    with pytest.raises(InputError, match="A part of X of a fit must have vectors of one length; row 0 has 48 numbers"):
        _joined([wide, wide[:, :5]])


_ON_LOOPBACK = """
import sys, numpy as np, psutil
from armillary import SphericalKMeans, open_rows
from armillary.exceptions import InputError
if sys.argv[2] == "imported":
    import ray
def listening():
    found = psutil.net_connections("inet")
    return {f"{one.laddr.ip}:{one.laddr.port}" for one in found if one.status == "LISTEN"}
before, places = listening(), set()
model = SphericalKMeans(2, random_state=0, max_iter=2, callbacks=lambda _: places.update(listening()))
try:
    model.fit(open_rows(sys.argv[1], n_workers="ray"))
except InputError as error:
    print(error)
else:
    print(*sorted({place.rpartition(":")[0] for place in places - before}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["first", "imported"])
def test_ray_listens_on_loopback_or_is_not_started(how, ray, rows, tmp_path):  # noqa: F811
    np.save(tmp_path / "rows.npy", rows[:500])
    command = [sys.executable, "-c", _ON_LOOPBACK, str(tmp_path / "rows.npy"), how]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split("\n")[-2]
    if how == "imported" and "Ray must listen on loopback alone unless it is told otherwise" in said:
        return  # a machine without any other interface can be served all the same
    assert set(said.split()) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
