"""Small fits of every class, with settings drawn at random from all that a fit takes: models that must save."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import armillary as ar
from armillary.exceptions import InputError, ParameterError

Random = np.random.Generator


def fitted(random: Random, name: str | None = None) -> Any:
    """A fitted model of the class `name`, or of any; settings that no fit takes are drawn again."""
    make = MAKERS[name or str(random.choice(list(MAKERS)))]
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return make(random)
        except (InputError, ParameterError):
            continue


def rows(random: Random, *, n_features: int | None = None, n_rows: int | None = None) -> Any:
    """Rows in any form that models take: tight or broad, equal, one or many, of any length, dense or sparse."""
    d = n_features or int(random.choice([2, 3, 3, 4, 6, 20]))
    n = n_rows or int(random.choice([1, 2, 5, 20, 40]))
    centres = random.standard_normal((int(random.integers(1, 4)), d))
    X = centres[random.integers(len(centres), size=n)] + random.choice([0.0, 1e-9, 1e-3, 0.1, 1.0]) * (
        random.standard_normal((n, d))
    )
    X = X * random.choice([1.0, 1e-150, 1e150])
    kind = random.choice(["float64", "float32", "csr", "frame", "signs"], p=[0.4, 0.2, 0.2, 0.1, 0.1])
    if kind == "signs":
        return np.sign(X) + (np.sign(X) == 0)  # rows that cancel
    if kind == "float32":
        return np.float32(X / np.abs(X).max())
    if kind == "csr":
        return sp.csr_array(np.where(random.random(X.shape) < 0.3, 0.0, X) + np.eye(n, d) * X)
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(d)]) if kind == "frame" else X


def weights(random: Random, n: int) -> Any:
    """No weights, or some: zero, tiny, large."""
    kind = random.integers(6)
    if kind < 3:
        return None
    if kind == 3:
        return random.integers(0, 3, n).astype(float)
    return random.random(n) * random.choice([1.0, 1e-6, 1e6])


def _some(random: Random, **choices: list[Any]) -> dict[str, Any]:
    """A few parameters, each with one of its values; the others keep their defaults."""
    return {name: values[random.integers(len(values))] for name, values in choices.items() if random.random() < 0.4}


def _shared(random: Random) -> dict[str, Any]:
    return {"random_state": int(random.integers(1000)), "n_threads": 1, **_some(random, max_iter=[1, 2, 30])}


def _start(random: Random, X: Any, k: int, *words: str) -> Any:
    if random.random() < 0.3:
        return np.asarray(random.standard_normal((k, X.shape[1])), random.choice([np.float32, np.float64]))
    return str(random.choice(words))


def _spherical_kmeans(random: Random) -> Any:
    X = rows(random)
    k = int(random.integers(1, 5))
    model = ar.SphericalKMeans(
        k,
        init=_start(random, X, k, "k-means++", "random"),
        **_shared(random),
        **_some(random, empty_clusters=["keep"], n_init=[1, 2], tol=[0.0, 0.1], algorithm=["lloyd", "hamerly"]),
    )
    if random.random() < 0.2:
        return model.set_params(balance=float(random.choice([1.0, 1.3]))).fit(X)
    return _batches(random, model, X)


def _batches(random: Random, model: Any, X: Any) -> Any:
    """`fit`, or `partial_fit`, or one after the other."""
    if random.random() < 0.6:
        model.fit(X, sample_weight=weights(random, X.shape[0]))
    for _ in range(random.integers(1, 3) if not hasattr(model, "n_features_in_") or random.random() < 0.4 else 0):
        model.partial_fit(X, sample_weight=weights(random, X.shape[0]))
    return model


def _hierarchical_spherical_kmeans(random: Random) -> Any:
    X = rows(random)
    n_rows = X.shape[0]
    levels = [one for one in (1, (1,), (1, 2), (2, 5), (1, 2, 4)) if np.max(one) <= n_rows]
    parameters = _shared(random) | _some(random, n_resamples=[0, 1], resample_size=[1, 3], missing=["flag"])
    parameters.pop("n_init", None)
    model = ar.HierarchicalSphericalKMeans(levels[random.integers(len(levels))], **parameters)
    return model.fit(X, sample_weight=weights(random, n_rows))


def _dp_vmf_means(random: Random) -> Any:
    X = rows(random)
    parameters = {
        **_some(
            random,
            max_angle=[0.1, 1.0, np.pi, 3e-3],
            n_init=[2],
            max_clusters=[1, 2],
            warm_start=[True],
            consolidate=[True],
            tol=[0.0],
        ),
        **_shared(random),
    }
    model = _batches(random, ar.DPvMFMeans(**parameters), X)
    if model.warm_start:
        model.fit(X)
    return model


def _ddp_vmf_means(random: Random) -> Any:
    d = int(random.choice([2, 3, 6]))
    model = ar.DDPvMFMeans(
        n_threads=1,
        **_some(
            random,
            max_angle=[0.1, 1.0, np.pi],
            drift_concentration=[1e-3, 1.0, 1e12, np.inf],
            max_unseen_steps=[1, 2, 3.5, np.inf],
            weight_update=["paper"],
            solver=["small_angle"],
            carry_unseen=[True],
            missing=["flag"],
            max_history=[0, 2],
            max_iter=[1],
        ),
    )
    for _ in range(random.integers(1, 6)):
        X = np.empty((0, d)) if random.random() < 0.15 else rows(random, n_features=d)
        if isinstance(X, pd.DataFrame):
            X = X.to_numpy()
        weight = weights(random, X.shape[0])
        if model.missing == "flag" and isinstance(X, np.ndarray):
            X = np.where(random.random(X.shape) < 0.1, np.nan, X)
        model.partial_fit(X, sample_weight=weight)
    return model


def _vmf_mixture(random: Random) -> Any:
    X = rows(random)
    k = int(random.integers(1, 5))
    return ar.VonMisesFisherMixture(
        k,
        init=_start(random, X, k, "k-means++", "random", "random_labels"),
        **_shared(random),
        **_some(
            random,
            concentration=["free"],
            assignment=["hard"],
            estimate=["approximate"],
            stopping=["paper"],
            initial_concentration=[1e-3, 1e6],
            prior_strength=[0.0, 1e3],
        ),
    ).fit(X, sample_weight=weights(random, X.shape[0]))


def _soft_kmeans(random: Random) -> Any:
    X = rows(random)
    k = int(random.integers(1, 5))
    model = ar.SoftKMeans(k, init=_start(random, X, k, "k-means++", "random", "random_labels"), **_shared(random))
    return model.fit(X, sample_weight=weights(random, X.shape[0]))


def _multinomial_mixture(random: Random) -> Any:
    shape = int(random.choice([1, 3, 30])), int(random.choice([2, 5]))
    X = random.poisson(random.choice([0.2, 3.0, 1e4]), shape)
    X = sp.csr_array(X) if random.random() < 0.3 else X
    return ar.MultinomialMixture(
        int(random.integers(1, 4)),
        **_shared(random),
        **_some(random, weight_concentration_prior=[1e-9, 1e3], feature_prior=[1e-12, 10.0], init=["random_labels"]),
    ).fit(X, sample_weight=weights(random, shape[0]))


def _priors(random: Random, X: Any) -> dict[str, Any]:
    few = {"max_iter": int(random.integers(1, 4))}  # a step costs as much as a whole fit of the other models
    return few | _some(
        random,
        concentration_posterior=["monte_carlo", "log_normal"],
        log_normal_bound=["jensen", "delta"],
        empirical_bayes=[False],
        weight_concentration_prior=[1e-3, 100.0],
        mean_direction_prior=[random.standard_normal(X.shape[1])],
        mean_concentration_prior=[0.0, 5.0, 1e9],
        log_concentration_mean_prior=[-20.0, 3.0, 26.0],
        log_concentration_variance_prior=[1e-6, 100.0],
    )


def _bayesian_vmf_mixture(random: Random) -> Any:
    X = rows(random)
    k = int(random.integers(1, 5))
    parameters = {
        "init": _start(random, X, k, "k-means++", "random"),
        **_shared(random),
        **_priors(random, X),
        **_some(random, factors=["factorised"], weight_prior=["stick_breaking"], merge=[True], batch_size=[5]),
    }
    model = ar.BayesianVonMisesFisherMixture(k, **parameters, **_some(random, total_rows=[1.0, 1e6]))
    return _batches(random, model, X)


def _gibbs_vmf_mixture(random: Random) -> Any:
    X = rows(random)
    k = int(random.integers(1, 5))
    taken = signature(ar.GibbsVonMisesFisherMixture).parameters
    parameters = {name: value for name, value in _priors(random, X).items() if name in taken}
    return ar.GibbsVonMisesFisherMixture(
        k,
        init=_start(random, X, k, "k-means++", "random"),
        n_draws=int(random.integers(1, 6)),
        n_burn_in=int(random.integers(3)),
        random_state=int(random.integers(1000)),
        n_threads=1,
        **parameters,
        **_some(random, thin=[2]),
    ).fit(X)


def _hierarchical_vmf_mixture(random: Random) -> Any:
    X = rows(random)
    trees = [[-1], [-1, -1], [-1, 0, 0], [-1, 0, 1, 1], [-1, 0, 0, 1, 1], [-1, -1, 0, 0]]
    model = ar.HierarchicalVonMisesFisherMixture(
        parents=trees[random.integers(len(trees))],
        **{**_shared(random), **_priors(random, X)},
        **_some(random, inference=["factorised"], groups=["shared"], root=["point"]),
    )
    return model.fit(X, sample_weight=weights(random, X.shape[0]))


def _temporal_vmf_mixture(random: Random) -> Any:
    X = rows(random)
    n = X.shape[0]
    model = ar.TemporalVonMisesFisherMixture(
        int(random.integers(1, 4)),
        **{**_shared(random), **_priors(random, X)},
        **_some(
            random, inference=["factorised"], weights=["per_slice"], forget=[0.0, 0.5], drift=[0.0, 0.1, np.pi / 2]
        ),
    )
    numbers = np.sort(random.integers(0, 4, n))
    times = [
        lambda at: at,
        lambda at: at - 0.5,
        lambda at: np.datetime64("2001-01-01") + at,
        lambda at: np.array([f"t{i}" for i in at.ravel()]).reshape(at.shape),
        lambda at: (np.datetime64("2001-01", "M") + at).astype("datetime64[3M]"),
    ][random.integers(5)]
    if random.random() < 0.7:
        slices = times(np.arange(-1, 5)) if random.random() < 0.3 else None
        model.fit(X, times=times(numbers), sample_weight=weights(random, n), slices=slices)
    if random.random() < 0.4 or not hasattr(model, "means_"):
        model.partial_fit(X, time=times(np.array(5)).item() if times(np.array(5)).dtype.kind != "M" else None)
        if random.random() < 0.3:
            model.partial_fit(X[:0])
    return model


def _links(random: Random) -> Any:
    d = int(random.choice([2, 3, 6, 20]))
    model = ar.Links(
        **_some(
            random,
            cluster_similarity_threshold=[0.2, 0.95],
            subcluster_similarity_threshold=[0.5, 0.99, 1.0],
            pair_similarity_maximum=[1.0, 0.95],
            merge_clusters=[True],
            max_subclusters=[1, 3],
            max_idle=[1, 5],
            max_history=[0, 3],
        )
    )
    X = rows(random, n_features=d)
    for _ in range(random.integers(1, 4)):
        model.partial_fit(X, sample_weight=weights(random, X.shape[0]))
        X = X if hasattr(model, "feature_names_in_") else rows(random, n_features=d)
        for act in random.permutation(4)[: random.integers(3)]:
            _corrected(random, model, act)
    return model


def _corrected(random: Random, model: Any, act: int) -> None:
    ids = model.cluster_ids_.tolist()
    pair = [ids[random.integers(len(ids))] for _ in range(2)] if ids else [0, 0]
    vectors = random.standard_normal((2, model.n_features_in_))
    try:
        if act == 0:
            model.name(pair[0], f"n{random.integers(3)}")
        elif act == 1:
            model.must_link(*pair)
        elif act == 2:
            model.cannot_link(*pair)
        else:
            model.cannot_link(*vectors)
    except InputError:
        return


def _dirichlet_process_mixture(random: Random) -> Any:
    X = rows(random, n_features=int(random.choice([2, 3, 5])))
    component = str(random.choice(["tangent_gaussian", "gaussian", "vmf"]))
    X = X.toarray() if component != "vmf" and sp.issparse(X) else X
    n = X.shape[0]
    model = ar.DirichletProcessMixture(
        component,
        n_draws=int(random.integers(1, 6)),
        n_burn_in=int(random.integers(3)),
        random_state=int(random.integers(1000)),
        n_threads=1,
        **_some(
            random,
            sampler=["subclusters", "finite", "crp"],
            weight_prior=["resampled"],
            weight_concentration_prior=[1e-6, 100.0],
            spread_prior=[1e-6, 2.0],
            volume_factor=[False],
            init=["one", 1, random.integers(0, 3, n)],
            n_chains=[2, 3],
            thin=[2],
            max_seconds=[1e-9],
            loss=["binder"],
            n_attempts=[0, 2],
        ),
    ).fit(X)
    return model.resume(X, int(random.integers(3))) if random.random() < 0.3 else model


def _auto_clusterer(random: Random) -> Any:
    model = ar.AutoClusterer(
        random_state=int(random.integers(1000)),
        n_threads=1,
        **_some(random, level=["coarse", "fine"], outliers=["auto", 0.1], tfidf=["on"], min_cluster_size=[5]),
    )
    return model.fit(rows(random))


MAKERS: dict[str, Callable[[Random], Any]] = {
    "AutoClusterer": _auto_clusterer,
    "SphericalKMeans": _spherical_kmeans,
    "HierarchicalSphericalKMeans": _hierarchical_spherical_kmeans,
    "DPvMFMeans": _dp_vmf_means,
    "DDPvMFMeans": _ddp_vmf_means,
    "VonMisesFisherMixture": _vmf_mixture,
    "SoftKMeans": _soft_kmeans,
    "MultinomialMixture": _multinomial_mixture,
    "BayesianVonMisesFisherMixture": _bayesian_vmf_mixture,
    "GibbsVonMisesFisherMixture": _gibbs_vmf_mixture,
    "HierarchicalVonMisesFisherMixture": _hierarchical_vmf_mixture,
    "TemporalVonMisesFisherMixture": _temporal_vmf_mixture,
    "Links": _links,
    "DirichletProcessMixture": _dirichlet_process_mixture,
}
