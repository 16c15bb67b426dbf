"""Files with a right SHA-256 around values that no fit leaves: each is refused with a sentence."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest

from armillary import (
    AutoClusterer,
    BayesianVonMisesFisherMixture,
    DDPvMFMeans,
    DirichletProcessMixture,
    DPvMFMeans,
    GibbsVonMisesFisherMixture,
    HierarchicalVonMisesFisherMixture,
    Links,
    MultinomialMixture,
    SoftKMeans,
    SphericalKMeans,
    TemporalVonMisesFisherMixture,
    VonMisesFisherMixture,
    load,
    save,
)
from armillary.exceptions import ArchiveError, InputError
from armillary.persistence import archive, schema, values
from armillary.persistence.checkpoints import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:.*used all:sklearn.exceptions.ConvergenceWarning")

X = np.eye(3)[np.arange(30) % 3] + 0.1 * np.random.default_rng(0).standard_normal((30, 3))
COUNTS = np.round(9.0 * np.abs(X))
SMALL = {"random_state": 0, "n_threads": 1}
MAKERS = {
    "auto": lambda: AutoClusterer(outliers="auto", **SMALL).fit(X),
    "kmeans": lambda: SphericalKMeans(3, **SMALL).fit(X),
    "dp": lambda: DPvMFMeans(**SMALL).fit(X),
    "ddp": lambda: DDPvMFMeans(n_threads=1).fit(X).partial_fit(X[::3]),
    "vmf": lambda: VonMisesFisherMixture(3, **SMALL).fit(X),
    "soft": lambda: SoftKMeans(3, **SMALL).fit(X),
    "multinomial": lambda: MultinomialMixture(3, **SMALL).fit(COUNTS),
    "bayes": lambda: BayesianVonMisesFisherMixture(3, max_iter=5, **SMALL).fit(X),
    "gibbs": lambda: GibbsVonMisesFisherMixture(3, n_draws=4, n_burn_in=1, **SMALL).fit(X),
    "tree": lambda: HierarchicalVonMisesFisherMixture(parents=[-1, 0, 0, 1, 1], max_iter=5, **SMALL).fit(X),
    "time": lambda: TemporalVonMisesFisherMixture(3, max_iter=5, **SMALL).fit(X, times=np.arange(30) // 10),
    "links": lambda: Links(0.3, 0.9).fit(X),
    "tgmm": lambda: DirichletProcessMixture(n_draws=4, n_burn_in=0, sampler="crp", **SMALL).fit(X),
    "dpvmf": lambda: DirichletProcessMixture("vmf", n_draws=2, n_burn_in=0, sampler="crp", **SMALL).fit(X),
}


@pytest.fixture(scope="module")
def models():
    return {name: make() for name, make in MAKERS.items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def state_of(model):
    """The names of the saved state of this model."""
    return {field.name for field in schema.MODELS[type(model).__name__].state}


def signed(model, path, **changes):
    """A file of this model with some fields, or parameters, replaced, and a right SHA-256.

    Fields of the saved state go by their names and "_", as the rules have them.
    """
    header, tensors = archive._described(model)
    for name, value in changes.items():
        part, own, tensor = "fields" if name.endswith("_") else "params", name, name
        if name[:-1] in state_of(model):
            part, own, tensor = "state", name[:-1], f"state/{name[:-1]}"
        if isinstance(value, np.ndarray):
            tensors[tensor] = value
        else:
            header[part][own] = schema.to_json(value, tensor, tensors)
    path.write_bytes(archive._packed(header, tensors))
    return path


def entry(name, place, value):
    """A copy of a fitted array with one entry replaced."""

    def change(model):
        array = np.array(getattr(model, name) if hasattr(model, name) else getattr(model._saved_state, name[:-1]))
        array[place] = value
        return {name: array}

    return change


def bomb(model):
    """A megabyte of draws that would unpack to a gigabyte each."""
    n_draws = len(model._saved_state.draw_ends)
    content = zlib.compress(bytes(1 << 28), 9)
    packed = bytes([129]) + content + (bytes([1]) + content) * (n_draws - 1)
    ends = (1 + len(content)) * np.arange(1, n_draws + 1, dtype=np.int64)
    return {"packed_draws_": np.frombuffer(packed, np.uint8).copy(), "draw_ends_": ends}


REFUSED = [
    ("links", entry("subcluster_parents_", 0, 10**9), "`subcluster_parents_` of Links must be a forest"),
    ("links", entry("subcluster_parents_", 0, -2), "`subcluster_parents_` of Links must be a forest"),
    ("links", entry("subcluster_parents_", 0, 0), "`subcluster_parents_` of Links must be a forest"),
    ("links", entry("subcluster_numbers_", 0, 10**6), "different numbers below the next one"),
    ("links", entry("subcluster_ids_", 0, 10**6), "whole numbers from 0 to below the next one in `next_id_`"),
    ("links", entry("resultants_", 0, 0.0), "none without a direction"),
    ("links", entry("resultants_", (0, 0), 1e9), "longer than `counts_`"),
    ("links", entry("counts_", 0, np.inf), "finite and above 0"),
    ("links", lambda model: {"joins_": np.array([[0, 1], [1, 0]])}, "pairs of a sub-cluster that was and an older one"),
    ("links", lambda model: {"history_": np.array([[1, 3, 0, 1], [1, 3, 1, 0]])}, "never merged in a circle"),
    ("links", lambda model: {"n_clusters_": model.n_clusters_ + 1}, "one id for each tree"),
    ("links", lambda model: {"next_id_": 10**30}, "from 0 to 2^62"),
    ("tgmm", entry("covariances_", (0, 0, 0), np.inf), "symmetric and positive definite"),
    ("tgmm", entry("covariances_", (0, 0, 0), np.nan), "symmetric and positive definite"),
    ("tgmm", entry("covariances_", (0, 0, 1), 0.7), "symmetric and positive definite"),
    ("tgmm", lambda model: {"covariances_": -model.covariances_}, "symmetric and positive definite"),
    ("tgmm", entry("means_", 0, 0.5), "means on the sphere, or inside it for Gaussians"),
    ("tgmm", entry("weights_", 0, 2.0), "above 0, with a sum of at most 1"),
    ("tgmm", entry("draw_ends_", -1, 10**6), "draws of each chain within its bytes"),
    ("tgmm", entry("packed_draws_", 0, 7), "draws of each chain within its bytes"),
    ("tgmm", entry("chain_labels_", (0, 0), 29), "chains whose labels have no gaps"),
    ("tgmm", lambda model: {"spread_": 0.0}, "`spread_` of DirichletProcessMixture must be above 0"),
    ("tgmm", lambda model: {"degrees_of_freedom_": 1.0}, "more degrees of freedom"),
    ("tgmm", lambda model: {"component": "vmf"}, "`concentrations_` if its component is vmf"),
    ("tgmm", lambda model: {"sampler": "subclusters"}, "halves of clusters where its sampler"),
    ("dpvmf", entry("concentrations_", 0, -1.0), "above 0"),
    ("kmeans", entry("labels_", 0, 3), "whole numbers from 0 to below the length of `cluster_centers_`"),
    ("kmeans", entry("labels_", 0, -1), "whole numbers from 0"),
    ("kmeans", lambda model: {"cluster_centers_": 1.001 * model.cluster_centers_}, "must be unit vectors"),
    ("kmeans", lambda model: {"inertia_": np.nan}, "finite and not negative; '"),
    ("dp", lambda model: {"lambda_": 0.5}, "in [-2, 0]; '"),
    ("ddp", entry("cluster_ids_", 0, 1), "increasing ids below the next one"),
    ("ddp", entry("memory_weights_", 0, 0.0), "must be above 0"),
    ("ddp", entry("steps_unseen_", 0, -1), "whole numbers from 0"),
    ("ddp", entry("history_", (0, 1), 9), "lives from 1 to 4"),
    ("vmf", entry("weights_", 0, 0.9), "shares that sum to 1"),
    ("vmf", entry("weights_", 0, np.nan), "shares that sum to 1"),
    ("vmf", lambda model: {"n_clusters_": 1}, "as many clusters in `n_clusters_` as `weights_` above 1e-8"),
    ("soft", lambda model: {"variance_": 0.0}, "`variance_` of SoftKMeans must be in [1e-13, 1]"),
    ("multinomial", entry("feature_probabilities_", (0, 0), 0.0), "shares above 0 that sum to 1"),
    ("bayes", entry("node_weights_", 0, 7.0), "shares that sum to 1 in each column"),
    ("bayes", entry("lower_bounds_", -1, 7.0), "`lower_bounds_` that end with `lower_bound_`"),
    ("bayes", lambda model: {"n_iter_": 77}, "as many `lower_bounds_` as steps"),
    ("bayes", lambda model: {"seed_": 2**63}, "from 0 to below 2^63"),
    ("gibbs", entry("sample_labels_", (0, 0), 3), "whole numbers from 0 to below the length of `weights_`"),
    ("gibbs", entry("sample_counts_", (0, 0), 99.0), "draws whose counts add up"),
    ("gibbs", lambda model: {"partition_draw_": 99}, "draws whose counts add up"),
    ("tree", lambda model: {"parents_": np.array([4, 0, 0, 1, 1])}, "a tree, with parents before their children"),
    ("tree", lambda model: {"parents_": np.array([-1, 0, 0, 0, 0])}, "a component for each leaf of its tree"),
    ("time", lambda model: {"times_": np.array([0, 2, 1])}, "strictly increasing"),
    ("time", lambda model: {"n_slices_": 2}, "at least one slice, and no more than it counts"),
    ("time", lambda model: {"drift_angle_": -1.0}, "`drift_angle_`"),
]


@pytest.mark.parametrize(("name", "change", "words"), REFUSED)
def test_values_that_no_fit_leaves_are_refused(name, change, words, models, path):
    signed(models[name], path, **change(models[name]))
    with pytest.raises(ArchiveError) as caught:
        load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", MAKERS)
def test_models_as_fitted_load(name, models, path):
    load(signed(models[name], path))


PARAMETERS = [
    ("kmeans", {"n_clusters": 0}, "`n_clusters` of SphericalKMeans must be"),
    ("kmeans", {"tol": -1.0}, "`tol` of SphericalKMeans must be"),
    ("kmeans", {"algorithm": "magic"}, "`algorithm` of SphericalKMeans must be"),
    ("kmeans", {"n_threads": 0}, "`n_threads` of SphericalKMeans must be"),
    ("kmeans", {"verbose": "much"}, "`verbose` of SphericalKMeans must be"),
    ("kmeans", {"random_state": -4}, "`random_state` must be"),
    ("dp", {"max_angle": 9.0}, "`max_angle` of DPvMFMeans must be"),
    ("ddp", {"max_unseen_steps": 0.5}, "`max_unseen_steps` of DDPvMFMeans must be"),
    ("vmf", {"concentration": "loose"}, "`concentration` of VonMisesFisherMixture must be"),
    ("soft", {"init": [[1.0, 0.0]]}, "`init` of SoftKMeans must"),
    ("multinomial", {"feature_prior": 0.0}, "`feature_prior` of MultinomialMixture must be"),
    ("bayes", {"learning_decay": 2.0}, "`learning_decay` of BayesianVonMisesFisherMixture must be"),
    ("tree", {"parents": [[0], 1]}, "parents of HierarchicalVonMisesFisherMixture must be one number for each node"),
    ("tree", {"parents": [1, 0]}, "parents of HierarchicalVonMisesFisherMixture"),
    ("time", {"forget": 2.0}, "`forget` of TemporalVonMisesFisherMixture must be"),
    ("links", {"cluster_similarity_threshold": 1.5}, "`cluster_similarity_threshold` of Links must be"),
    ("links", {"max_idle": 0}, "`max_idle` of Links must be"),
    ("tgmm", {"init": [[0], 1]}, "`init` of DirichletProcessMixture must hold one integer for each row"),
    ("tgmm", {"thin": 0}, "`thin` of DirichletProcessMixture must be"),
    ("tgmm", {"loss": "none"}, "`loss` of DirichletProcessMixture must be"),
]


@pytest.mark.parametrize(("name", "change", "words"), PARAMETERS)
def test_parameters_that_no_fit_takes_are_refused_in_files_and_models(name, change, words, models, path):
    signed(models[name], path, **change)
    with pytest.raises(ArchiveError, match=r"^load takes models with parameters that `fit` takes; ") as caught:
        load(path)
    assert words in str(caught.value)
    model = models[name]
    before = model.get_params()
    try:
        model.set_params(**change)
        with pytest.raises(ArchiveError, match=r"^save takes models with parameters that `fit` takes; this model has"):
            save(model, path)
    finally:
        model.set_params(**before)


def test_parameters_may_be_changed_after_a_fit(models, path):
    model = models["kmeans"]
    before = model.get_params()
    try:
        save(model.set_params(n_clusters=1000, tol=0.5), path)  # more than it had rows: the next fit may have enough
        assert load(path).n_clusters == 1000
    finally:
        model.set_params(**before)


def test_a_long_parameter_is_not_told_in_full(models, path):
    signed(models["kmeans"], path, algorithm="x" * 100_000)
    with pytest.raises(ArchiveError) as caught:
        load(path)
    assert len(str(caught.value)) < 2000


def names_of(model):
    """Fields of a schema with the names that rules have for them."""
    return [(field, field.name) for field in model.fields] + [(field, f"{field.name}_") for field in model.state]


def test_every_array_of_whole_numbers_has_a_rule():
    for name, model in schema.MODELS.items():
        for field, key in names_of(model):
            if field.kind in ("int32", "int64", "uint8", schema.TIMES):
                assert key in {**values._EVERYWHERE, **values._OWN.get(name, {})}, (name, key)


def test_rules_are_about_fields_that_there_are():
    known = {name: {key for _, key in names_of(model)} for name, model in schema.MODELS.items()}
    assert set(values._EVERYWHERE) <= set().union(*known.values())
    for name, rules in values._OWN.items():
        assert set(rules) <= known[name]


def test_the_saved_state_of_a_class_is_what_its_schema_says(models):
    for name, model in schema.MODELS.items():
        kind = schema.class_named(name)._state_kind
        fields = {} if kind is None else {field.name: field for field in dataclasses.fields(kind)}
        assert sorted(fields) == sorted(field.name for field in model.state), name
        for field in model.state:  # one that need not be there is None
            own = fields[field.name]
            has_default = (own.default, own.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
            assert field.is_required == (not has_default), (name, field.name)
        # a rule is found by name alone
        own = {field.name for field in model.fields}
        assert not {f"{field.name}_" for field in model.state} & own
        assert not {*schema.defaults_of(schema.class_named(name))} & {key for _, key in names_of(model)}
    assert {name for name, model in models.items() if hasattr(model, "_saved_state")} >= {"bayes", "gibbs", "tgmm"}


@pytest.mark.parametrize("name", ["bayes", "gibbs", "tree", "time", "tgmm"])
def test_a_saved_state_must_be_whole(name, models, path):
    for field in schema.MODELS[type(models[name]).__name__].state:
        header, tensors = archive._described(models[name])
        if field.name not in header["state"]:
            continue
        written = header["state"].pop(field.name)
        if isinstance(written, dict) and "tensor" in written:
            del tensors[written["tensor"]]
        path.write_bytes(archive._packed(header, tensors))
        with pytest.raises(ArchiveError, match=f"must have `{field.name}`; .* has none"):
            load(path)


def test_nothing_unknown_is_part_of_a_saved_state(models, path):
    header, tensors = archive._described(models["bayes"])
    header["state"]["more"] = 3
    path.write_bytes(archive._packed(header, tensors))
    with pytest.raises(ArchiveError, match="`more` is no part of the saved state of Bayesian"):
        load(path)
    del header["state"]
    path.write_bytes(archive._packed(header, tensors))
    with pytest.raises(ArchiveError, match="load reads `state` as schema version 2 writes it"):
        load(path)


# ---------------------------------------------------------------------------------------------------------------- draws


def test_draws_that_unpack_to_more_than_the_rows_have_are_refused_without_the_memory(models, path):
    loaded = load(signed(models["tgmm"], path, **bomb(models["tgmm"])))
    with pytest.raises(ArchiveError, match=r"^Draw 0 of a model must hold a cluster for each of its rows; it holds"):
        _ = loaded.sample_labels_
    with pytest.raises(ArchiveError, match="something else than 30 labels"):
        loaded.resume(X)


def test_draws_that_do_not_unpack_get_a_sentence(models, path):
    loaded = load(signed(models["tgmm"], path, **entry("packed_draws_", 3, 250)(models["tgmm"])))
    with pytest.raises(ArchiveError, match=r"^Draw 0 of a model must hold a cluster for each of its rows"):
        _ = loaded.sample_labels_


def test_draws_of_more_clusters_than_rows_are_refused(models, path):
    content = bytes([129]) + zlib.compress(bytes([200]) * 30)
    others = bytes([1]) + zlib.compress(bytes(30))
    n = len(models["tgmm"]._saved_state.draw_ends)
    ends = len(content) + len(others) * np.arange(n)
    packed = np.frombuffer(content + others * (n - 1), np.uint8).copy()
    loaded = load(signed(models["tgmm"], path, packed_draws_=packed, draw_ends_=ends))
    with pytest.raises(ArchiveError, match="a cluster of number 200 for 30 rows"):
        _ = loaded.sample_labels_


# ------------------------------------------------------------------------------------------------ what files brought up


def test_a_law_wider_than_the_sphere_is_not_drawn_for_ever(models, path):
    wide = 1e8 * models["tgmm"].covariances_
    loaded = load(signed(models["tgmm"], path, covariances_=wide, weights_=models["tgmm"].weights_))
    with pytest.raises(InputError, match="the covariance is far wider than the sphere"):
        loaded.sample(3, random_state=0)


def test_weights_that_leave_nothing_for_clusters_to_come(models, path):
    weights = models["tgmm"].weights_ / models["tgmm"].weights_.sum()
    loaded = load(signed(models["tgmm"], path, weights_=np.nextafter(weights, 1.0)))
    assert np.isfinite(loaded.score_samples(X)).all()
    assert len(loaded.sample(5, random_state=0)[0]) == 5


def test_bounds_beyond_what_is_counted_bound_nothing(models, path):
    beyond = load(signed(models["links"], path, max_idle=2**62, max_subclusters=2**62))
    without = load(signed(models["links"], path))
    assert load(signed(models["dp"], path, max_clusters=2**62)).partial_fit(X).n_clusters_ == 3
    np.testing.assert_array_equal(beyond.partial_fit(X).labels_, without.partial_fit(X).labels_)


def test_a_score_without_clusters_is_refused():
    model = DDPvMFMeans(n_threads=1).fit(np.empty((0, 3)))
    with pytest.raises(InputError, match=r"^`score` of DDPvMFMeans must have clusters to measure from"):
        model.score(X)


def test_a_tensor_does_not_stand_for_a_field_that_is_gone(models, path):
    header, tensors = archive._described(models["kmeans"])
    del header["fields"]["labels_"]
    path.write_bytes(archive._packed(header, tensors))
    with pytest.raises(ArchiveError, match="`labels_` is no fitted attribute of SphericalKMeans"):
        load(path)


@pytest.mark.parametrize("unit", ["0D", "generic", "x", "99999999999D"])
def test_units_of_dates_are_those_of_numpy(unit, models, path):
    header, tensors = archive._described(models["time"])
    header["fields"]["times_"] = {"dates": ["times_", unit]}
    path.write_bytes(archive._packed(header, tensors))
    with pytest.raises(ArchiveError, match="load reads `fields` as schema version 2 writes it"):
        load(path)


@pytest.mark.parametrize("value", [[[1], [2, 3]], [[[[1]]]], [1, "a"]])
def test_lists_of_other_things_than_names_are_refused(value, models, path):
    with pytest.raises(ArchiveError, match="`names` of Links must be strings of shape"):
        load(signed(models["links"], path, names_=value))


# ---------------------------------------------------------------------------------------------------------- checkpoints

PLACE = {"rows": 5, "input_rows": 5, "input_mark": f"9:{64 * 'a'}", "output": "-", "batch": None, "is_finished": True}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": -5}, "`rows` of the place in '.*' must be an int from 0 to 2\\^62; it is '-5'"),
        ({"rows": "many"}, "`rows` of the place"),
        ({"rows": True}, "`rows` of the place"),
        ({"rows": 2**80}, "`rows` of the place"),
        ({"input_rows": 6}, "must have as many rows as were taken of its input, 6, or more; it has 5"),
        ({"input_mark": "x:y"}, "`input_mark` of the place in '.*' must be empty, or a length and a digest"),
        ({"input_mark": 3}, "`input_mark` of the place"),
        ({"output": ["a"]}, "`output` of the place in '.*' must be the name of a file"),
        ({"output": "a\0b"}, "`output` of the place"),
        ({"batch": 0}, "`batch` of the place in '.*' must be a number of rows, or null"),
        ({"is_finished": 1}, "`is_finished` of the place in '.*' must be true or false"),
    ],
)
def test_a_place_that_no_stream_is_at_is_refused(change, words, models, path):
    save_checkpoint(models["links"], PLACE, path)
    assert load_checkpoint(path)[1] == PLACE
    save_checkpoint(models["links"], {**PLACE, **change}, path)
    with pytest.raises(ArchiveError, match=words):
        load_checkpoint(path)


def test_a_place_without_rows_is_refused(models, path):
    save_checkpoint(models["links"], {"output": "-"}, path)
    with pytest.raises(ArchiveError, match="reads a place that says how many rows were taken"):
        load_checkpoint(path)
