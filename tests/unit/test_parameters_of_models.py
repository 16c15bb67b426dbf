"""Parameters are checked as plain values: a mapping, the shape of rows, and whose they are. No estimator is needed."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from armillary.exceptions import InputError, ParameterError
from armillary.models.parameters import AnyRows
from armillary.persistence import schema

CLASSES = [name for name in schema.MODELS if schema.class_named(name)._parameters_kind is not None]
ROWS = AnyRows(n_features=5)
WRONG = {
    "DDPvMFMeans": "max_angle",
    "DPvMFMeans": "max_angle",
    "HierarchicalSphericalKMeans": "n_resamples",
    "HierarchicalVonMisesFisherMixture": "empirical_bayes",
}


def given(name, **changed):
    parameters = inspect.signature(schema.class_named(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items()} | changed


def test_every_class_but_links_has_such_checks():
    assert {*schema.MODELS} - {*CLASSES} == {"AutoClusterer", "Links"}  # whose parameters are checked one by one


@pytest.mark.parametrize("name", CLASSES)
def test_defaults_pass_and_a_wrong_value_is_told_in_the_name_of_whoever_asks(name):
    kind = schema.class_named(name)._parameters_kind
    checked = kind.check(given(name), ROWS, "Somebody")
    assert type(checked) is kind
    with pytest.raises(dataclasses.FrozenInstanceError):
        checked.anything = 1
    wrong = WRONG.get(name, "n_init" if name == "SphericalKMeans" else "n_components")
    with pytest.raises(ParameterError, match=f"^`{wrong}` of Somebody must be"):
        kind.check(given(name, **{wrong: -7.5}), ROWS, "Somebody")


@pytest.mark.parametrize("name", CLASSES)
def test_what_the_estimator_says_is_the_same(name):
    model = schema.class_named(name)()
    model.n_features_in_ = 5
    model._check_parameters()
    wrong = WRONG.get(name, "n_init" if name == "SphericalKMeans" else "n_components")
    model.set_params(**{wrong: -7.5})
    with pytest.raises(ParameterError, match=f"^`{wrong}` of {name} must be"):
        model._check_parameters()


def test_the_shape_of_rows_is_asked_for_where_it_matters():
    kind = schema.class_named("SphericalKMeans")._parameters_kind
    with pytest.raises(InputError, match=r"^`n_clusters` of Somebody must not exceed the number of rows; got"):
        kind.check(given("SphericalKMeans"), AnyRows(5, n_rows=3), "Somebody")
    kind = schema.class_named("DPvMFMeans")._parameters_kind
    with pytest.raises(ParameterError, match=r"for float32 rows, whose cosines resolve no smaller angle"):
        kind.check(given("DPvMFMeans", max_angle=1e-5), AnyRows(5, dtype=np.dtype(np.float32)), "Somebody")
