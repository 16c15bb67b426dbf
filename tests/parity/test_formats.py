"""Rows that hold the same values give the same labels and the same model file, wherever they lie and however cut."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import armillary
from armillary import open_rows

N, D = 20_000, 24  # several lanes, so that stretches are read ahead


def models():
    short = {"random_state": 0, "max_iter": 2}
    yield armillary.SphericalKMeans(9, **short)
    yield armillary.SphericalKMeans(9, algorithm="lloyd", **short)
    yield armillary.SphericalKMeans(9, balance=1.1, **short)
    yield armillary.HierarchicalSphericalKMeans((3, 9), **short)
    yield armillary.DPvMFMeans(1.25, **short)
    yield armillary.DDPvMFMeans(1.25)
    yield armillary.SoftKMeans(5, **short)
    yield armillary.VonMisesFisherMixture(5, **short)
    yield armillary.VonMisesFisherMixture(5, assignment="hard", **short)
    yield armillary.BayesianVonMisesFisherMixture(5, **short)
    yield armillary.HierarchicalVonMisesFisherMixture(height=1, branching=3, **short)
    yield armillary.TemporalVonMisesFisherMixture(4, **short)


# Sums of these are whole: CSR rows give the same bytes as dense ones. What others add up is evidence or shares.
WHOLE = (
    armillary.SphericalKMeans,
    armillary.HierarchicalSphericalKMeans,
    armillary.DPvMFMeans,
    armillary.DDPvMFMeans,
)


def rows_of_clusters():
    draws = np.random.default_rng(3)
    centers = draws.normal(size=(7, D))
    return (centers[draws.integers(0, 7, N)] + draws.normal(size=(N, D))).astype(np.float16)


def bytes_of(model, folder):
    armillary.save(model, folder / "model")
    return (folder / "model").read_bytes()


def lists(X):
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)


@pytest.fixture(scope="module")
def formats(tmp_path_factory):
    """The same values in every form; shards, batches and groups of rows are cut at random."""
    folder, X, draws = tmp_path_factory.mktemp("formats"), rows_of_clusters(), np.random.default_rng()
    np.save(folder / "a.npy", X)
    (folder / "shards").mkdir()
    cuts = sorted(draws.integers(0, N, 11))
    for number, part in enumerate(np.split(X, cuts)):
        np.save(folder / "shards" / f"part-{number}.npy", part)
    pq.write_table(pa.table({"v": lists(X)}), folder / "a.parquet", row_group_size=int(draws.integers(500, N)))
    (folder / "tables").mkdir()
    for number, part in enumerate(np.split(X, cuts[::3])):
        table = pa.table({"v": lists(part), "i": np.arange(len(part))})
        with pa.ipc.new_stream(str(folder / "tables" / f"part-{number}.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=int(draws.integers(100, 5000)))
    return {
        "float32": X.astype(np.float32),
        "map": np.load(folder / "a.npy", mmap_mode="r"),
        "npy": open_rows(folder / "a.npy"),
        "shards": open_rows(folder / "shards"),
        "parquet": open_rows(folder / "a.parquet"),
        "arrow": open_rows(folder / "tables"),
    }


@pytest.mark.parametrize("model", list(models()), ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore:.*used all:sklearn.exceptions.ConvergenceWarning")
def test_formats_give_equal_models(formats, model, tmp_path):
    is_temporal = isinstance(model, armillary.TemporalVonMisesFisherMixture)
    more = {"times": np.repeat(np.arange(5), N // 5)} if is_temporal else {}
    fitted = clone(model).fit(formats["float32"], **more)
    expected = bytes_of(fitted, tmp_path)
    forms = formats if not isinstance(model, WHOLE) else {**formats, "CSR": sp.csr_array(formats["float32"])}
    for name, rows in forms.items():
        for n_threads in (1, 2) if name == "parquet" else (None,):
            found = clone(model).set_params(n_threads=n_threads).fit(rows, **more)
            np.testing.assert_array_equal(found.labels_, fitted.labels_, err_msg=name)
            predicted = (fitted.predict(X, **more) for X in (rows, formats["float32"]))
            np.testing.assert_array_equal(*predicted, err_msg=name)
            assert bytes_of(found.set_params(n_threads=None), tmp_path) == expected, name


@pytest.mark.filterwarnings("ignore:.*used all:sklearn.exceptions.ConvergenceWarning")
def test_csr_matrices_on_disk_give_the_models_of_those_in_memory(tmp_path):
    X = sp.random(6000, 300, 0.05, format="csr", random_state=0, dtype=np.float32)
    X = sp.csr_array(X[np.diff(X.indptr) > 0])
    for number, start in enumerate(range(0, X.shape[0], 1700)):
        sp.save_npz(tmp_path / f"{number}.npz", X[start : start + 1700], compressed=False)
    for model in (armillary.SphericalKMeans(6, random_state=0, max_iter=3), armillary.SoftKMeans(4, max_iter=2)):
        seeded = clone(model).set_params(random_state=1)
        expected = bytes_of(clone(seeded).fit(X), tmp_path)
        assert bytes_of(clone(seeded).fit(open_rows(str(tmp_path / "*.npz"))), tmp_path) == expected


def test_streams_learn_the_same_from_disk(formats):
    for model in (armillary.SphericalKMeans(5, random_state=0), armillary.Links(0.35, 0.4, 0.5)):
        memory, disk = clone(model), clone(model)
        memory.partial_fit(formats["float32"][:3000])
        disk.partial_fit(open_rows([shard.path for shard in formats["npy"].shards])[:3000])
        np.testing.assert_array_equal(memory.labels_, disk.labels_)
        np.testing.assert_array_equal(memory.predict(formats["float32"]), disk.predict(formats["shards"]))


def test_models_saved_without_labels(formats, tmp_path):
    model = armillary.SphericalKMeans(5, random_state=0).fit(formats["npy"])
    armillary.save(model, tmp_path / "whole")
    armillary.save(model, tmp_path / "bare", keep_labels=False)
    assert (tmp_path / "whole").stat().st_size - (tmp_path / "bare").stat().st_size > 4 * N - 1000
    loaded = armillary.load(tmp_path / "bare")
    assert not hasattr(loaded, "labels_")
    np.testing.assert_array_equal(loaded.predict(formats["parquet"]), model.labels_)
    with pytest.raises(armillary.exceptions.ArchiveError, match="keep_labels=False"):
        armillary.save(loaded, tmp_path / "again")
    armillary.save(loaded, tmp_path / "again", keep_labels=False)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "bare").read_bytes()
    np.testing.assert_array_equal(
        loaded.partial_fit(formats["float32"]).labels_, model.partial_fit(formats["float32"]).labels_
    )
    track = armillary.DDPvMFMeans(1.0).fit(formats["float32"][:50])
    with pytest.raises(armillary.exceptions.ArchiveError, match="held against its labels"):
        armillary.save(track, tmp_path / "track", keep_labels=False)
    with pytest.raises(armillary.exceptions.ParameterError, match="keep_labels"):
        armillary.save(model, tmp_path / "whole", keep_labels="no")
