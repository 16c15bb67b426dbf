"""Saved and loaded: equal bits, sentences for whatever is not a saved model, and files that are whole or not there."""

from __future__ import annotations

import errno
import inspect
import json
import math
import os
import pickle
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from tests.making import each

import armillary
from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans, load, save
from armillary.exceptions import ArchiveError
from armillary.persistence import archive, renamed, schema

SAVE_AGAIN = "Save the model again, or fetch the file again from where it came."
UPGRADE = "Upgrade: pip install --upgrade armillary."
CLASSES = ", ".join(schema.MODELS)


def rows(n=60, seed=0):
    return np.eye(3)[np.arange(n) % 3] + 0.3 * np.random.default_rng(seed).normal(size=(n, 3))


def fitted(**parameters):
    return SphericalKMeans(**{"n_clusters": 3, "random_state": 0, "n_threads": 1, **parameters}).fit(rows())


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def content(model):
    """The bytes that `save` would write."""
    return archive._packed(*archive._described(model))


def assert_equal_models(one, other):
    assert type(one) is type(other)
    mine, yours = (
        {name: value for name, value in vars(model).items() if name not in ("_own_turns", "_ran_on")}
        for model in (one, other)
    )
    assert mine.keys() == yours.keys()
    for name, value in mine.items():
        assert type(value) is type(yours[name]), name
        if isinstance(value, np.ndarray):
            assert value.dtype == yours[name].dtype, name
            np.testing.assert_array_equal(value, yours[name], err_msg=name, strict=True)
        else:
            assert value == yours[name] or (value != value and yours[name] != yours[name]), name


def refusal(action, *arguments):
    with pytest.raises(ArchiveError) as caught:
        action(*arguments)
    return str(caught.value)


# -------------------------------------------------------------------------------------------------------- round trips


def test_a_loaded_model_is_equal_and_predicts_with_equal_bits(model, path):
    save(model, path)
    loaded = load(path)
    assert_equal_models(loaded, model)
    new = rows(500, seed=1)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    assert loaded.score(new) == model.score(new)


def test_whole_and_resumed_streams_have_equal_bits(path):
    whole = SphericalKMeans(3, random_state=0, n_threads=1)
    for batch in range(6):
        whole.partial_fit(rows(seed=batch))
    resumed = SphericalKMeans(3, random_state=0, n_threads=1)
    for batch in range(6):
        resumed.partial_fit(rows(seed=batch))
        save(resumed, path)
        resumed = load(path)
    assert resumed.n_steps_ == 6
    assert_equal_models(resumed, whole)


def frames(n_steps=8):
    """A stream whose clusters take turns to be away, with an empty frame, a frame of one row and missing rows."""
    for step in range(n_steps):
        frame = rows(30, seed=step)
        frame = frame[np.arange(30) % 3 != step % 4]
        frame = frame[: {4: 0, 5: 1}.get(step, 30)]
        frame[:1] = np.nan if step % 3 == 2 else frame[:1]
        yield frame


def streaming(**parameters):
    return DDPvMFMeans(**{"max_angle": 0.7, "max_unseen_steps": 3, "missing": "flag", "n_threads": 1, **parameters})


@pytest.mark.parametrize("way", ["save", "pickle"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_unseen_steps": math.inf, "drift_concentration": 50.0},
        {"drift_concentration": math.inf, "weight_update": "paper"},
        {"solver": "small_angle", "carry_unseen": True, "max_history": 5},
    ],
    ids=lambda parameters: ",".join(parameters) or "defaults",
)
def test_a_stream_goes_on_with_equal_bits_from_any_step(parameters, way, path):
    whole, resumed = streaming(**parameters), streaming(**parameters)
    for frame in frames():
        whole.partial_fit(frame)
        resumed.partial_fit(frame)
        if way == "save":
            save(resumed, path)
            resumed = load(path)
        else:
            resumed = pickle.loads(pickle.dumps(resumed))
        assert_equal_models(resumed, whole)
    assert whole.n_steps_ == 8


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_clusters": 3, "n_init": 3, "random_state": 5},
        {"consolidate": True, "warm_start": True},
        {"max_angle": math.pi},
    ],
    ids=lambda parameters: ",".join(parameters) or "defaults",
)
def test_clusters_that_were_found_come_back_with_equal_bits(parameters, path):
    model = DPvMFMeans(n_threads=1, **parameters).fit(rows(), sample_weight=np.arange(60) % 3)
    save(model, path)
    loaded = load(path)
    assert_equal_models(loaded, model)
    np.testing.assert_array_equal(
        loaded.predict(rows(99, seed=1), reject=True), model.predict(rows(99, seed=1), reject=True)
    )
    for one in (model, loaded):
        one.partial_fit(rows(20, seed=2))
    assert_equal_models(loaded, model)
    for one in (model, loaded):
        one.fit(rows(50, seed=3))  # warm where that is asked for
    assert_equal_models(loaded, model)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"memory_weights_": np.ones(4)},
            "`memory_weights_` of DDPvMFMeans must be float64 of shape (3,); this model has float64 of shape (4,).",
        ),
        (
            {"cluster_centers_": np.ones((3, 4))},
            (
                "`cluster_centers_` of DDPvMFMeans must be float64 of shape (3, 3); "
                "this model has float64 of shape (3, 4)."
            ),
        ),
        (
            {"steps_unseen_": np.zeros(2, dtype=np.int64)},
            "`steps_unseen_` of DDPvMFMeans must be int64 of shape (3,); this model has int64 of shape (2,).",
        ),
        (
            {"history_": np.zeros((5, 2), dtype=np.int64)},
            "`history_` of DDPvMFMeans must be int64 of shape (5, 3); this model has int64 of shape (5, 2).",
        ),
        (
            {"labels_": np.zeros(5, dtype=np.int32)},
            "`labels_` of DDPvMFMeans must be int64 of shape (5,); this model has int32 of shape (5,).",
        ),
        ({"next_id_": 3.0}, "`next_id_` of DDPvMFMeans must be one int; this model has one float."),
        ({"lambda_": ...}, "A fitted DDPvMFMeans must have `lambda_`; this model has none."),
    ],
)
def test_the_memory_of_a_stream_must_fit_together(change, sentence, path):
    model = streaming().fit(np.eye(3))
    assert len(model.cluster_ids_) == 3
    for name, value in change.items():
        if value is ...:
            delattr(model, name)
        else:
            setattr(model, name, value)
    assert refusal(save, model, path) == f"{sentence} Leave fitted attributes as fit made them; fit again."
    assert not path.exists()


def test_a_loaded_model_can_be_fitted_and_cloned(model, path):
    save(model, path)
    loaded = load(path)
    assert clone(loaded).get_params() == model.get_params()
    assert_equal_models(loaded.fit(rows()), model)


def test_arrays_of_a_loaded_model_are_its_own(model, path):
    save(model, path)
    loaded = load(path)
    path.write_bytes(b"")  # the file may go
    loaded.cluster_centers_ += 0.0
    loaded.labels_[0] = 2
    assert loaded.cluster_centers_.flags.c_contiguous


def test_paths_may_be_strings_and_any_ending_will_do(model, tmp_path):
    for path in (str(tmp_path / "a"), tmp_path / "b.bin", os.fsencode(tmp_path / "c")):
        save(model, path)
        assert_equal_models(load(path), model)


def test_equal_models_give_equal_bytes(model, tmp_path):
    save(model, tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_tools_can_read_the_file(model, path):
    save(model, path)
    tensors = safetensors.numpy.load_file(path)
    assert sorted(tensors) == ["cluster_centers_", "counts_", "labels_", "offsets_", "resultants_"]
    np.testing.assert_array_equal(tensors["cluster_centers_"], model.cluster_centers_)
    with safetensors.safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["armillary"])
    assert header["format"] == "armillary.model"
    assert header["schema_version"] == 2
    assert header["armillary_version"] == armillary.__version__
    assert header["class"] == "SphericalKMeans"
    assert header["params"]["n_clusters"] == 3
    assert header["fields"]["inertia_"] == model.inertia_


def test_layout_and_byte_order_do_not_matter(model, path):
    strange = fitted()
    strange.cluster_centers_ = np.asfortranarray(model.cluster_centers_)
    strange.resultants_ = model.resultants_.astype(">f8")
    strange.counts_ = np.repeat(model.counts_, 2)[::2]
    save(strange, path)
    assert_equal_models(load(path), model)


def test_feature_names_are_kept(path):
    pandas = pytest.importorskip("pandas")
    names = ["east", "nørth", "上", "\ud800"][:3]
    table = pandas.DataFrame(rows(), columns=names)
    named = SphericalKMeans(3, random_state=0, n_threads=1).fit(table)
    save(named, path)
    loaded = load(path)
    assert loaded.feature_names_in_.dtype == object
    assert_equal_models(loaded, named)
    np.testing.assert_array_equal(loaded.predict(table), named.labels_)  # no warning about names
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(table[names[::-1]])


@pytest.mark.parametrize(
    "init",
    [
        np.eye(3),
        np.eye(3, dtype=np.float32),
        np.eye(3, dtype=int)[::-1],
        np.eye(3).tolist(),
        ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        (np.eye(3)[0], [0.0, 1.0, 0.0], np.eye(3, dtype=np.float32)[2]),
    ],
)
def test_directions_given_as_init_are_kept(init, path):
    model = fitted(init=init)
    save(model, path)
    loaded = load(path).init
    assert type(loaded) is type(init)
    np.testing.assert_array_equal(np.asarray(loaded), np.asarray(init), strict=True)


def plain_values():
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(st.characters()), inner),
        max_leaves=8,
    )


def assert_same_value(one, other):
    assert type(one) is type(other)
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, yours in zip(one, other, strict=True):
            assert_same_value(mine, yours)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key, value in one.items():
            assert_same_value(value, other[key])
    elif isinstance(one, float):
        assert math.isnan(one) == math.isnan(other)
        assert math.isnan(one) or (one == other and math.copysign(1, one) == math.copysign(1, other))
    else:
        assert one == other


@given(plain_values())
@example(float("inf"))
@example(-float("inf"))
@example(float("nan"))
@example(-0.0)
@example(5e-324)
@example({"float": "inf", "tensor": "labels_", "dict": {}})
@example("\ud800")
def test_any_plain_parameter_survives_json(value):
    text = archive._text({"value": schema.to_json(value, "params/value", {})})
    assert_same_value(schema.from_json(json.loads(text)["value"], {}), value)


def test_arrays_inside_a_parameter_never_share_a_name():
    first, second, third = (np.full(2, number) for number in (1.0, 2.0, 3.0))
    value = {"a/b": first, "a": {"b": second}, "0": [third]}
    tensors = {}
    written = schema.to_json(value, "params/x", tensors)
    assert len(tensors) == 3
    back = schema.from_json(written, tensors)
    assert tensors == {}
    assert (back["a/b"] is first, back["a"]["b"] is second, back["0"][0] is third) == (True, True, True)


def test_numbers_that_are_not_finite_survive(path):
    endless = DDPvMFMeans(drift_concentration=math.inf, max_unseen_steps=math.inf, n_threads=1).fit(rows())
    save(endless, path)
    assert_equal_models(load(path), endless)
    # and the header is JSON that any reader takes
    with safetensors.safe_open(path, framework="numpy") as file:
        json.loads(file.metadata()["armillary"], parse_constant=pytest.fail)


def test_numpy_scalars_become_plain_numbers(path):
    model = fitted(n_clusters=np.int64(3), tol=np.float64(1e-3))
    save(model, path)
    loaded = load(path)
    assert (loaded.n_clusters, type(loaded.n_clusters)) == (3, int)
    assert (loaded.tol, type(loaded.tol)) == (1e-3, float)


def test_callbacks_are_not_saved(path):
    model = fitted(callbacks=[lambda event: None])
    save(model, path)
    assert load(path).callbacks is None


def test_a_parameter_younger_than_the_file_has_its_default(model, path):
    header, tensors = archive._described(model)
    del header["params"]["empty_clusters"]
    path.write_bytes(archive._packed(header, tensors))
    assert load(path).empty_clusters == "refill"


# ------------------------------------------------------------------------------------------------- releases, for ever

RELEASES = sorted((Path(__file__).parent / "data").glob("*.safetensors"))


def test_there_is_an_archive_of_each_class_and_release():
    stems = [file.stem for file in RELEASES]
    for name in ("spherical_kmeans", "dp_vmf_means", "ddp_vmf_means"):
        assert f"{name}_0.1.0" in stems


def test_the_first_archive_loads_for_ever():
    """It was written before the others, with a few attributes of its own in the file of answers."""
    (file,) = (file for file in RELEASES if file.stem == "spherical_kmeans_0.1.0")
    expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    model = load(file)
    assert type(model).__name__ == expected["class"]
    new = np.array(expected["rows"])
    assert model.predict(new).tolist() == expected["predict"]
    np.testing.assert_allclose(model.transform(new), expected["transform"], rtol=0.0, atol=1e-12)
    np.testing.assert_array_equal(model.cluster_centers_, expected["cluster_centers_"])
    np.testing.assert_array_equal(model.init, expected["init"])
    assert model.labels_.shape == (expected["n_rows_fitted"],)
    assert (model.n_iter_, model.inertia_) == (expected["n_iter_"], expected["inertia_"])
    n_before = model.counts_.sum()
    assert model.partial_fit(new).counts_.sum() == n_before + len(new)


@pytest.mark.parametrize(
    "file", [file for file in RELEASES if file.stem != "spherical_kmeans_0.1.0"], ids=lambda f: f.stem
)
def test_a_model_saved_by_each_release_loads_for_ever(file):
    expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    model = load(file)
    assert type(model).__name__ == expected["class"]
    params = model.get_params()
    for name, value in renamed.values_now(
        type(model).__name__, expected["params"]
    ).items():  # later releases may have more
        assert params[name] == value, name
    names = renamed.FIELDS.get(expected["class"], {})
    for name, value in expected["fitted"].items():
        np.testing.assert_array_equal(getattr(model, names.get(name, name)), np.array(value), err_msg=name)
    new = np.array(expected["rows"])
    assert model.predict(new).tolist() == expected["predict"]
    # it goes on; angles may differ in their last bits from one libm to another
    model.partial_fit(new)
    assert model.labels_.tolist() == expected["next"]["labels_"]
    np.testing.assert_allclose(model.cluster_centers_, expected["next"]["directions"], rtol=0.0, atol=1e-12)


# -------------------------------------------------------------------------------------------------- refusals of `save`


@pytest.mark.parametrize("thing", [KMeans(), {"labels_": 1}, SphericalKMeans, None])
def test_only_models_of_armillary_are_saved(thing, path):
    assert refusal(save, thing, path) == (
        f"save takes a fitted model of one of the classes {CLASSES}; got an object of type "
        f"{type(thing).__name__}. Only these come back from a file as they were; a subclass would come back as its "
        "parent."
    )
    assert not path.exists()


def test_a_subclass_is_not_its_parent(path):
    class SphericalKMeans(armillary.SphericalKMeans):  # even with the same name
        pass

    assert "got an object of type SphericalKMeans" in refusal(save, SphericalKMeans(3).fit(rows()), path)


def test_an_unfitted_model_is_refused(path):
    assert refusal(save, SphericalKMeans(), path) == (
        "save takes a fitted model; this SphericalKMeans has no fitted attributes. Call fit first."
    )


@pytest.mark.parametrize(
    ("name", "value", "type_name", "way_out"),
    [
        ("random_state", np.random.default_rng(0), "Generator", "random_state=None"),
        ("random_state", np.random.RandomState(0), "RandomState", "random_state=None"),
        ("init", len, "builtin_function_or_method", "init='k-means++'"),
        ("init", np.array([["a"]]), "ndarray", "init='k-means++'"),
        ("init", np.array([[None]]), "ndarray", "init='k-means++'"),
        ("init", np.ma.masked_array(np.eye(3)), "MaskedArray", "init='k-means++'"),
        ("init", [np.eye(3), {1: 2}], "dict", "init='k-means++'"),
        ("n_threads", 1j, "complex", "n_threads=None"),
    ],
)
def test_parameters_without_a_place_in_a_file(name, value, type_name, way_out, path):
    model = fitted().set_params(**{name: value})
    assert refusal(save, model, path) == (
        f"`{name}` of SphericalKMeans must be made of numbers, strings, None and numeric arrays to be saved; got a "
        f"value of type {type_name}. Replace it before saving, e.g. model.set_params({way_out})."
    )
    assert not path.exists()
    model.set_params(**{name: inspect.signature(SphericalKMeans).parameters[name].default})
    save(model, path)  # the way out is one


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"note_": "mine"}, "`note_` is no fitted attribute of SphericalKMeans; this model has one."),
        (
            {"resultants_": np.eye(4)},
            "`resultants_` of SphericalKMeans must be float64 of shape (3, 3); this model has float64 of shape (4, 4).",
        ),
        (
            {"labels_": np.zeros(5)},
            "`labels_` of SphericalKMeans must be int32 of shape (5,); this model has float64 of shape (5,).",
        ),
        ({"n_iter_": True}, "`n_iter_` of SphericalKMeans must be one int; this model has one bool."),
        ({"inertia_": None}, "`inertia_` of SphericalKMeans must be one float; this model has one NoneType."),
        ({"counts_": ...}, "A fitted SphericalKMeans must have `counts_`; this model has none."),
    ],
)
def test_fitted_attributes_must_be_those_of_a_fit(change, sentence, path):
    model = fitted()
    for name, value in change.items():
        if value is ...:
            delattr(model, name)
        else:
            setattr(model, name, value)
    assert refusal(save, model, path) == f"{sentence} Leave fitted attributes as fit made them; fit again."
    assert not path.exists()


def test_private_attributes_are_not_part_of_a_model(model, path):
    marked = fitted()
    marked._note_ = object()
    save(marked, path)
    assert_equal_models(load(path), model)


def test_a_header_beyond_the_limit_of_the_format(path):
    model = fitted()
    model.feature_names_in_ = np.array(["x" * 100_000_001, "y", "z"], dtype=object)
    assert refusal(save, model, path).startswith(
        "A header may have at most 100 MB; the parameters and feature names of this model have 100,0"
    )


# -------------------------------------------------------------------------------------------------- refusals of `load`


def changed(model, path, change):
    """A file with a right checksum whose content `change(header, tensors)` has altered."""
    header, tensors = archive._described(model)
    change(header, tensors)
    path.write_bytes(archive._packed(header, tensors))
    return path


def test_what_the_system_cannot_read_is_not_called_damaged(path, monkeypatch):
    path.write_bytes(b"whatever")

    def fails(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(archive.safetensors, "safe_open", fails)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        load(path)


@pytest.mark.parametrize("data", [b"", b"short", b"a text of some length, {but} no tensors", pickle.dumps([1] * 99)])
def test_not_a_safetensors_file(data, path):
    path.write_bytes(data)
    assert refusal(load, path) == (
        f"load reads files that armillary.save wrote; '{path}' is not a safetensors file. Check the path."
    )


@pytest.mark.parametrize("keep", [0.02, 0.5, 0.99])
def test_a_file_cut_short(model, path, keep):
    data = content(model)
    path.write_bytes(data[: int(keep * len(data))])
    sentence = refusal(load, path)
    assert sentence.startswith(f"load reads whole files; '{path}' is cut short or damaged (")
    assert sentence.endswith(f"). {SAVE_AGAIN}")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"armillary": "[1]"}, {"armillary": "{" * 9}])
def test_a_safetensors_file_from_elsewhere(metadata, path):
    path.write_bytes(safetensors.numpy.save({"weight": np.eye(2)}, metadata))
    assert refusal(load, path) == (
        f"load reads files that armillary.save wrote; '{path}' is a safetensors file without Armillary's header. "
        "Check the path."
    )


@pytest.mark.parametrize("version", [3, 0, "1", None, 1.5, True])
def test_another_schema_version(model, path, version):
    changed(model, path, lambda header, _: header.update(schema_version=version, armillary_version="9.0.0"))
    assert refusal(load, path) == (
        f"load reads schema versions 1 and 2; '{path}' has version {version!r}, saved by armillary 9.0.0. {UPGRADE}"
    )


@pytest.mark.parametrize("name", ["KMeans", "os.system", "armillary.models.means.spherical_kmeans", 3, None, ["a"]])
def test_an_unknown_class(model, path, name):
    changed(model, path, lambda header, _: header.update({"class": name}))
    assert refusal(load, path) == (
        f"load knows the classes {CLASSES}; '{path}' holds {name!r}, saved by armillary "
        f"{armillary.__version__}. {UPGRADE}"
    )


def test_nothing_named_by_a_file_is_imported(model, path, monkeypatch, tmp_path):
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("hostile_module", "hostile_module.Model"):
        changed(model, path, lambda header, _, name=name: header.update({"class": name}))
        refusal(load, path)
    assert "hostile_module" not in sys.modules


@pytest.mark.parametrize("name", ["n_components", "callbacks", "self"])
def test_an_unknown_parameter(model, path, name):
    changed(model, path, lambda header, _: header["params"].update({name: 3}))
    assert refusal(load, path) == (
        f"`{name}` is no parameter of SphericalKMeans in armillary {armillary.__version__}; '{path}' has one, saved by "
        f"armillary {armillary.__version__}. {UPGRADE}"
    )


def test_a_missing_parameter_that_has_no_default(model, path, monkeypatch):
    class Needy(BaseEstimator):
        def __init__(self, max_angle):
            self.max_angle = max_angle

        def _check_parameters(self):
            pass

    monkeypatch.setitem(schema.MODELS, "Needy", schema.ModelSchema("nowhere", (schema.Field("n_iter_", "int"),)))
    monkeypatch.setattr(archive, "class_named", {"Needy": Needy}.__getitem__)
    needy = Needy(0.5)
    needy.n_iter_ = 4
    save(needy, path)
    assert (load(path).max_angle, load(path).n_iter_) == (0.5, 4)
    changed(needy, path, lambda header, _: header["params"].clear())
    assert refusal(load, path) == f"Needy needs its parameter `max_angle`; '{path}' has none. {SAVE_AGAIN}"
    needy.set_params(max_angle=len)
    assert "e.g. model.set_params(max_angle=None)." in refusal(save, needy, path)


@pytest.mark.parametrize("part", ["params", "fields"])
@pytest.mark.parametrize(
    "value", [None, [], 3, {"tol": {"tensor": "nowhere"}}, {"tol": {"a": 1, "b": 2}}, {"tol": {"set": [1]}}]
)
def test_a_header_in_other_words(model, path, part, value):
    changed(model, path, lambda header, _: header.update({part: value}))
    assert refusal(load, path) == (
        f"load reads `{part}` as schema version 2 writes it; '{path}' has something else there. {SAVE_AGAIN}"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda header, tensors: header["fields"].update(weights_=0.5),
            "`weights_` is no fitted attribute of SphericalKMeans; {file} has one.",
        ),
        (
            lambda header, tensors: tensors.update(extra=np.eye(2)),
            "`extra` is no fitted attribute of SphericalKMeans; {file} has one.",
        ),
        (
            lambda header, tensors: header["fields"].pop("inertia_"),
            "A fitted SphericalKMeans must have `inertia_`; {file} has none.",
        ),
        (
            lambda header, tensors: (header["fields"].pop("counts_"), tensors.pop("counts_")),
            "A fitted SphericalKMeans must have `counts_`; {file} has none.",
        ),
        (
            lambda header, tensors: tensors.update(resultants_=np.ones((3, 4))),
            "`resultants_` of SphericalKMeans must be float64 of shape (3, 3); {file} has float64 of shape (3, 4).",
        ),
        (
            lambda header, tensors: tensors.update(counts_=np.ones((3, 1))),
            "`counts_` of SphericalKMeans must be float64 of shape (3,); {file} has float64 of shape (3, 1).",
        ),
        (
            lambda header, tensors: tensors.update(resultants_=np.eye(3, dtype=np.float32)),
            "`resultants_` of SphericalKMeans must be float64 of shape (3, 3); {file} has float32 of shape (3, 3).",
        ),
        (
            lambda header, tensors: tensors.update(labels_=np.zeros((), dtype=np.int32)),
            "`labels_` of SphericalKMeans must be int32 of shape ('N',); {file} has int32 of shape ().",
        ),
        (
            lambda header, tensors: header["fields"].update(n_clusters_=2.0),
            "`n_clusters_` of SphericalKMeans must be one int; {file} has one float.",
        ),
        (
            lambda header, tensors: header["fields"].update(inertia_="low"),
            "`inertia_` of SphericalKMeans must be one float; {file} has one str.",
        ),
        (
            lambda header, tensors: header["fields"].update(feature_names_in_=["a", "b"]),
            "`feature_names_in_` of SphericalKMeans must be strings of shape (3,); {file} has strings of shape (2,).",
        ),
        (
            lambda header, tensors: header["fields"].update(feature_names_in_=["a", "b", 3]),
            "`feature_names_in_` of SphericalKMeans must be strings of shape (3,); {file} has one list.",
        ),
    ],
)
def test_fields_that_are_not_those_of_the_class(model, path, change, sentence):
    changed(model, path, change)
    expected = sentence.replace("{file}", f"'{path}'")
    assert refusal(load, path) == f"{expected} {SAVE_AGAIN}"


def test_an_edited_number_is_noticed(model, path):
    data = content(model)
    assert data.count(b'n_iter_\\":') == 1
    path.write_bytes(data.replace(b'max_iter\\":300', b'max_iter\\":900'))
    assert refusal(load, path) == (
        f"load compares a file with the SHA-256 in its header; '{path}' differs, so it was damaged or edited after it "
        f"was saved. {SAVE_AGAIN}"
    )


@pytest.mark.parametrize("text", ["[" * 200_000, '{"format":"armillary.model","schema_version":1,"x":' + "[" * 900])
def test_a_header_of_great_depth_is_refused(text, path):
    deep = text + "]" * text.count("[") + "}" * text.count("{")
    path.write_bytes(safetensors.numpy.save({"a": np.eye(2)}, {"armillary": deep}))
    refusal(load, path)


def test_depth_with_a_right_checksum_is_refused(model, path):
    value = 1
    for _ in range(400):
        value = {"tuple": [value]}
    changed(model, path, lambda header, _: header["params"].update(tol=value))
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack()) + 300)
        refusal(load, path)
    finally:
        sys.setrecursionlimit(limit)


def test_errors_of_the_system_are_left_as_they_are(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        save(model, tmp_path / "no" / "model")
    assert caught.value.filename == str(tmp_path / "no")
    for action in (load, lambda path: save(model, path)):
        with pytest.raises(TypeError):
            action(3)


# --------------------------------------------------------------------------------------------------------- bad bytes

ARCHIVE = content(fitted(init=np.eye(3, dtype=np.float16)))


def edits():
    position = st.integers(0, len(ARCHIVE) - 1)
    change = st.tuples(st.just("change"), position, st.binary(min_size=1, max_size=4))
    insert = st.tuples(st.just("insert"), position, st.binary(min_size=1, max_size=9))
    delete = st.tuples(st.just("delete"), position, st.integers(1, 40))
    return st.lists(change | insert | delete, min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(edits())
@example([("delete", 0, len(ARCHIVE))])
@example([("change", ARCHIVE.index(b"F16"), b"I16")])
def test_damaged_bytes_load_as_saved_or_are_refused(tmp_path_factory, edits):
    data = bytearray(ARCHIVE)
    for kind, position, value in edits:
        if kind == "delete":
            del data[position : position + value]
        elif kind == "insert":
            data[position:position] = value
        else:
            data[position : position + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    path.write_bytes(data)
    try:
        loaded = load(path)
    except ArchiveError:
        return
    assert content(loaded) == ARCHIVE


@pytest.mark.parametrize("dtype", [b"BF16", b"I16", b"U16", b"XYZ"])
def test_a_tensor_of_another_dtype_is_refused(dtype, path):
    length = int.from_bytes(ARCHIVE[:8], "little")
    header = ARCHIVE[8 : 8 + length].replace(b'"F16"', b'"' + dtype + b'"')
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + ARCHIVE[8 + length :])
    refusal(load, path)


@each("n_bytes", range(0, len(ARCHIVE), 13))
def test_every_length_of_a_cut_file_is_refused(n_bytes, path):
    path.write_bytes(ARCHIVE[:n_bytes])
    refusal(load, path)


# ----------------------------------------------------------------------------------------------------- whole or absent


def failing(error):
    def fail(*args, **kwargs):
        raise error

    return fail


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("exists", [False, True])
def test_a_failing_write_leaves_what_was_there(model, path, monkeypatch, step, error, exists):
    if exists:
        path.write_bytes(b"the old file")
    monkeypatch.setattr(os, step, failing(error))
    with pytest.raises(type(error)):
        save(model, path)
    assert [file.name for file in path.parent.iterdir()] == ([path.name] if exists else [])
    assert not exists or path.read_bytes() == b"the old file"


def test_the_content_is_on_disk_before_it_has_its_name(model, path, monkeypatch):
    done = []
    real = {name: getattr(os, name) for name in ("fsync", "replace")}

    def spy_fsync(descriptor):
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append(("fsync", "directory" if is_directory else os.fstat(descriptor).st_size))
        real["fsync"](descriptor)

    def spy_replace(source, target):
        done.append(("replace", os.path.dirname(source) == os.path.dirname(target)))
        real["replace"](source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    save(model, path)
    assert done == [("fsync", path.stat().st_size), ("replace", True), ("fsync", "directory")]


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX")
def test_permissions_are_those_that_open_would_give(model, path):
    mask = os.umask(0o027)
    try:
        save(model, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        save(model, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(mask)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes are POSIX")
def test_links_are_followed_and_devices_are_spared(model, tmp_path):
    target = tmp_path / "elsewhere" / "model"
    target.parent.mkdir()
    link = tmp_path / "link"
    link.symlink_to(target)
    save(model, link)
    assert link.is_symlink()
    assert_equal_models(load(target), model)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        assert refusal(save, model, place) == (
            f"save writes a regular file; '{place}' is a directory or a device. Give a file's path."
        )
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_long_name_is_no_problem(model, tmp_path):
    path = tmp_path / ("n" * 255)
    save(model, path)
    assert_equal_models(load(path), model)


def test_the_schema_lists_every_public_class():
    homes = {name: home for name, home in armillary._HOMES.items() if home.startswith("armillary.models.")}
    public = {name for name in homes if isinstance(getattr(armillary, name), type)} | {"AutoClusterer"}
    assert set(schema.MODELS) == public
    for name in public:
        assert schema.class_named(name) is getattr(armillary, name)


@pytest.mark.parametrize("name", ["SphericalKMeans", "DPvMFMeans", "DDPvMFMeans"])
def test_the_schema_lists_every_fitted_attribute(name):
    model = getattr(armillary, name)().fit(rows()).partial_fit(rows())
    known = [field.name for field in schema.MODELS[name].fields]
    assert len(set(known)) == len(known)
    attributes = set(schema.fitted_attributes(model))
    if name == "SphericalKMeans":  # balanced clusters have more, and cannot learn batches
        attributes |= set(schema.fitted_attributes(armillary.SphericalKMeans(balance=1.2).fit(rows())))
    assert attributes | {"feature_names_in_"} == set(known)
