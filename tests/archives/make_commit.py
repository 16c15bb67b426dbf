"""Write the archives of a commit: small models of every class and way of fitting, and what they must answer.

Run where what users hold is about to change, with the code before the change:

    python tests/archives/make_commit.py f40587c

writes `data/f40587c/`: a saved model for each entry of `CASES`, the states of `armillary stream` for each of `STREAMS`,
the rows they are asked about (`rows.npz`), and their answers (`answers.json`). A folder that is there is never written
again; `test_commits.py` beside this script loads them all, for ever. The entries follow the code: they have the names
of today, the folders those of their commit.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import armillary as ar

DATA = Path(__file__).parent / "data"
N_STREAMED = 40  # lines of a stream before its state is kept
SMALL: dict[str, Any] = {"random_state": 7, "n_threads": 1}


def bundles(n_rows: int, n_features: int, seed: int, noise: float = 0.3) -> np.ndarray:
    """Rows around three axes and the opposite of one; not normalised, as a user's rows."""
    draws = np.random.default_rng(seed)
    centres = np.vstack([np.eye(3, n_features), -np.eye(1, n_features)])
    return centres[np.arange(n_rows) % 4] + noise * draws.standard_normal((n_rows, n_features))


def make_rows() -> dict[str, np.ndarray]:
    """What models are fitted to and asked about: `wide` is taken as CSR too, `narrow` lies on the sphere."""
    wide = bundles(60, 20, seed=1, noise=0.15)
    counts = np.kron(np.eye(3), np.ones((1, 2)))[np.arange(48) % 3] * 4
    return {
        "narrow": bundles(48, 3, seed=0),
        "narrow_new": bundles(24, 3, seed=10),
        "wide": np.where(np.abs(wide) < 0.1, 0.0, wide),
        "wide_new": bundles(24, 20, seed=11, noise=0.15).round(3),
        "single": bundles(48, 6, seed=2, noise=0.2).astype(np.float32),
        "single_new": bundles(24, 6, seed=12, noise=0.2).astype(np.float32),
        "counts": counts + np.random.default_rng(3).poisson(1.0, (48, 6)),
        "counts_new": counts[:24] + np.random.default_rng(13).poisson(1.0, (24, 6)),
    }


def weights(n_rows: int) -> np.ndarray:
    """1, 2 and a half, over and over."""
    return np.array([1.0, 2.0, 0.5])[np.arange(n_rows) % 3]


# ------------------------------------------------------------------------------------------------------------- models

Rows = dict[str, Any]
Make = Callable[[Rows], Any]


def _streamed(model: Any, X: Any, n_batches: int = 3, **arguments: Any) -> Any:
    for batch in np.array_split(np.arange(X.shape[0]), n_batches):
        model.partial_fit(X[batch], **arguments)
    return model


def _tracked(rows: Rows, **parameters: Any) -> Any:
    """Clusters seen, away, dead and back."""
    model = ar.DDPvMFMeans(0.7, max_unseen_steps=4, n_threads=1, **parameters)
    X = rows["narrow"]
    for step in range(7):
        frame = X[np.arange(len(X)) % 4 != step % 3]
        model.partial_fit(frame[step :: 2 if step % 2 else 1])
    return model


def _corrected(rows: Rows) -> Any:
    """Names and constraints, of clusters and of vectors."""
    model = ar.Links(0.3, 0.9).fit(rows["narrow"])
    ids = model.cluster_ids_.tolist()
    model.name(ids[0], "first").name(ids[1], "second")
    model.cannot_link(ids[0], ids[1])
    model.must_link(rows["narrow"][2], rows["narrow_new"][2])
    model.learn_one(rows["narrow_new"][0])
    return model


def _times(n_rows: int) -> np.ndarray:
    return np.arange(n_rows) // 12


def _bayes(n_components: int = 4, **parameters: Any) -> Any:
    return ar.BayesianVonMisesFisherMixture(n_components, **{"max_iter": 20, **SMALL, **parameters})


def _gibbs(**parameters: Any) -> Any:
    return ar.GibbsVonMisesFisherMixture(4, n_draws=5, n_burn_in=20, **{**SMALL, **parameters})


def _tree(**parameters: Any) -> Any:
    parents = [-1, 0, 0, 1, 1, 2, 2]
    return ar.HierarchicalVonMisesFisherMixture(parents=parents, max_iter=20, **SMALL, **parameters)


def _time(**parameters: Any) -> Any:
    return ar.TemporalVonMisesFisherMixture(4, max_iter=20, **SMALL, **parameters)


def _process(component: str = "tangent_gaussian", **parameters: Any) -> Any:
    return ar.DirichletProcessMixture(component, n_burn_in=5, n_draws=6, **SMALL, **parameters)


def _frame(array: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(array, columns=[f"column {number}" for number in range(array.shape[1])])


# By name: how a model is made, the rows it is asked about ("csr:" as CSR), and how it goes on: "partial_fit"
# (with a date), "resume" with the rows that it was fitted to, or "" where a class has no way.
CASES: dict[str, tuple[Make, str, str]] = {
    "skmeans": (lambda r: ar.SphericalKMeans(4, **SMALL).fit(r["narrow"]), "narrow_new", "partial_fit"),
    "skmeans_weights": (
        lambda r: ar.SphericalKMeans(4, init="random", **SMALL).fit(r["narrow"], sample_weight=weights(48)),
        "narrow_new",
        "partial_fit",
    ),
    "skmeans_csr": (
        lambda r: ar.SphericalKMeans(8, algorithm="hamerly", **SMALL).fit(sp.csr_array(r["wide"])),
        "csr:wide_new",
        "partial_fit",
    ),
    "skmeans_float32": (
        lambda r: ar.SphericalKMeans(5, empty_clusters="keep", **SMALL).fit(r["single"]),
        "single_new",
        "partial_fit",
    ),
    "skmeans_stream": (lambda r: _streamed(ar.SphericalKMeans(4, **SMALL), r["narrow"]), "narrow_new", "partial_fit"),
    "skmeans_given": (
        lambda r: ar.SphericalKMeans(3, init=np.eye(3, dtype=np.float32), **SMALL).fit(r["narrow"]),
        "narrow_new",
        "partial_fit",
    ),
    "skmeans_names": (
        lambda r: ar.SphericalKMeans(4, **SMALL).fit(_frame(r["narrow"])),
        "frame:narrow_new",
        "partial_fit",
    ),
    "dp": (lambda r: ar.DPvMFMeans(0.9, **SMALL).fit(r["narrow"]), "narrow_new", "partial_fit"),
    "dp_capped": (
        lambda r: ar.DPvMFMeans(0.6, max_clusters=3, n_init=3, **SMALL).fit(r["narrow"], sample_weight=weights(48)),
        "narrow_new",
        "partial_fit",
    ),
    "dp_csr": (
        lambda r: ar.DPvMFMeans(1.0, consolidate=True, **SMALL).fit(sp.csr_array(r["wide"])),
        "csr:wide_new",
        "partial_fit",
    ),
    "dp_stream": (lambda r: _streamed(ar.DPvMFMeans(0.8, **SMALL), r["single"]), "single_new", "partial_fit"),
    "dp_warm": (
        lambda r: ar.DPvMFMeans(0.8, warm_start=True, **SMALL).fit(r["narrow"]).fit(r["narrow_new"]),
        "narrow_new",
        "partial_fit",
    ),
    "ddp": (_tracked, "narrow_new", "partial_fit"),
    "ddp_paper": (
        lambda r: _tracked(r, weight_update="paper", solver="small_angle", drift_concentration=50.0),
        "narrow_new",
        "partial_fit",
    ),
    "ddp_carried": (
        lambda r: _tracked(r, carry_unseen=True, max_history=5, missing="flag", drift_concentration=np.inf),
        "narrow_new",
        "partial_fit",
    ),
    "ddp_csr": (
        lambda r: _streamed(ar.DDPvMFMeans(1.0, n_threads=1), sp.csr_array(r["wide"])),
        "csr:wide_new",
        "partial_fit",
    ),
    "links": (lambda r: ar.Links(0.3, 0.9).fit(r["narrow"]), "narrow_new", "partial_fit"),
    "links_corrected": (_corrected, "narrow_new", "partial_fit"),
    "links_bounded": (
        lambda r: _streamed(
            ar.Links(0.4, 0.8, max_subclusters=6, max_idle=30, merge_clusters=True, max_history=20), r["single"]
        ),
        "single_new",
        "partial_fit",
    ),
    "links_csr": (lambda r: ar.Links(0.3, 0.8).fit(sp.csr_array(r["wide"])), "csr:wide_new", "partial_fit"),
    "soft": (lambda r: ar.SoftKMeans(4, **SMALL).fit(r["narrow"]), "narrow_new", ""),
    "soft_csr": (lambda r: ar.SoftKMeans(4, **SMALL).fit(sp.csr_array(r["wide"])), "csr:wide_new", ""),
    "multinomial": (lambda r: ar.MultinomialMixture(3, **SMALL).fit(r["counts"]), "counts_new", ""),
    "multinomial_prior": (
        lambda r: ar.MultinomialMixture(3, **MULTINOMIAL_PRIORS, **SMALL).fit(sp.csr_array(r["counts"])),
        "csr:counts_new",
        "",
    ),
    "vmf": (lambda r: ar.VonMisesFisherMixture(4, **SMALL).fit(r["narrow"]), "narrow_new", ""),
    "vmf_free": (
        lambda r: ar.VonMisesFisherMixture(4, concentration="free", **SMALL).fit(
            r["narrow"], sample_weight=weights(48)
        ),
        "narrow_new",
        "",
    ),
    "vmf_hard_csr": (
        lambda r: ar.VonMisesFisherMixture(4, assignment="hard", estimate="approximate", stopping="paper", **SMALL).fit(
            sp.csr_array(r["wide"])
        ),
        "csr:wide_new",
        "",
    ),
    "bayes": (lambda r: _bayes().fit(r["narrow"]), "narrow_new", "partial_fit"),
    "bayes_sticks": (
        lambda r: _bayes(6, weight_prior="stick_breaking").fit(r["narrow"], sample_weight=weights(48)),
        "narrow_new",
        "partial_fit",
    ),
    "bayes_factorised": (lambda r: _bayes(factors="factorised").fit(r["narrow"]), "narrow_new", "partial_fit"),
    "bayes_monte_carlo": (
        lambda r: _bayes(concentration_posterior="monte_carlo", max_iter=5).fit(r["narrow"]),
        "narrow_new",
        "partial_fit",
    ),
    "bayes_log_normal_csr": (
        lambda r: _bayes(concentration_posterior="log_normal", log_normal_bound="jensen").fit(sp.csr_array(r["wide"])),
        "csr:wide_new",
        "partial_fit",
    ),
    "bayes_stream": (lambda r: _streamed(_bayes(total_rows=200.0), r["narrow"]), "narrow_new", "partial_fit"),
    "bayes_stream_sticks": (
        lambda r: _streamed(_bayes(6, weight_prior="stick_breaking"), r["single"]),
        "single_new",
        "partial_fit",
    ),
    "bayes_batches": (lambda r: _bayes(batch_size=16, max_iter=6).fit(r["narrow"]), "narrow_new", "partial_fit"),
    "gibbs": (lambda r: _gibbs().fit(r["narrow"]), "narrow_new", ""),
    "gibbs_fixed": (
        lambda r: _gibbs(empirical_bayes=False, thin=2, weight_concentration_prior=0.5).fit(r["single"]),
        "single_new",
        "",
    ),
    "gibbs_csr": (lambda r: _gibbs().fit(sp.csr_array(r["wide"])), "csr:wide_new", ""),
    "tree": (lambda r: _tree().fit(r["narrow"]), "narrow_new", ""),
    "tree_factorised": (
        lambda r: _tree(inference="factorised", groups="shared", root="point").fit(r["narrow"]),
        "narrow_new",
        "",
    ),
    "tree_csr": (
        lambda r: _tree(concentration_posterior="log_normal").fit(sp.csr_array(r["wide"]), sample_weight=weights(60)),
        "csr:wide_new",
        "",
    ),
    "time": (lambda r: _time().fit(r["narrow"], times=_times(48)), "narrow_new", "partial_fit"),
    "time_factorised": (
        lambda r: _time(inference="factorised", drift=0.1, weights="per_slice").fit(r["narrow"], times=_times(48)),
        "narrow_new",
        "partial_fit",
    ),
    "time_dates_csr": (
        lambda r: _time(forget=0.5).fit(
            sp.csr_array(r["wide"]), times=np.datetime64("2001-01-01") + _times(60), sample_weight=weights(60)
        ),
        "csr:wide_new",
        "partial_fit:2001-02-01",
    ),
    "time_words": (
        lambda r: _time().fit(r["single"], times=np.array(["a", "b", "c", "d"])[_times(48)]),
        "single_new",
        "",
    ),
    "time_stream": (lambda r: _streamed(_time(drift=0.1), r["narrow"]), "narrow_new", "partial_fit"),
    "tgmm": (lambda r: _process().fit(r["narrow"]), "narrow_new", "resume:narrow"),
    "tgmm_chains": (
        lambda r: _process(n_chains=2, thin=2, volume_factor=False, loss="binder", **RESAMPLED).fit(r["narrow"]),
        "narrow_new",
        "resume:narrow",
    ),
    "tgmm_subclusters": (
        lambda r: _process(sampler="subclusters", n_chains=2).fit(r["narrow"]),
        "narrow_new",
        "resume:narrow",
    ),
    "tgmm_finite": (
        lambda r: _process(sampler="finite", n_components=6, spread_prior=0.3).fit(r["narrow"]),
        "narrow_new",
        "resume:narrow",
    ),
    "tgmm_crp": (
        lambda r: _process(sampler="crp", init=np.arange(48) % 4).fit(r["narrow"]),
        "narrow_new",
        "resume:narrow",
    ),
    "dpgmm": (lambda r: _process("gaussian").fit(r["narrow"]), "narrow_new", "resume:narrow"),
    "dpvmf": (lambda r: _process("vmf").fit(r["narrow"]), "narrow_new", "resume:narrow"),
    "dpvmf_csr": (
        lambda r: _process("vmf", sampler="crp").fit(sp.csr_array(r["wide"])),
        "csr:wide_new",
        "resume:csr:wide",
    ),
}
MULTINOMIAL_PRIORS = {"weight_concentration_prior": 2.0, "feature_prior": 0.5}
RESAMPLED = {"weight_prior": "resampled"}

# By name: options of `armillary stream`.
STREAMS: dict[str, list[str]] = {
    "links": [],
    "ddp": ["--model", "ddp", "--max-angle", "40", "--batch", "8"],
    "dp": ["--model", "dp", "--max-angle", "40", "--batch", "8"],
    "skmeans": ["--model", "skmeans", "-k", "4", "--batch", "8"],
}


# ------------------------------------------------------------------------------------------------------------ answers


def given(rows: Rows, name: str) -> Any:
    """Rows by name, as CSR or a frame where the name asks for it."""
    form, _, plain = name.rpartition(":")
    array = rows[plain]
    return sp.csr_array(array) if form == "csr" else _frame(array) if form == "frame" else array


def answers_of(model: Any, rows: Rows, asked: str, way: str) -> dict[str, Any]:
    """What a model says of rows, and after it has gone on learning."""
    X = given(rows, asked)
    said = {"class": type(model).__name__, "asked": asked, "way": way, "predict": np.asarray(model.predict(X)).tolist()}
    said["score"] = float(model.score(X))
    said["labels"] = np.asarray(model.labels_).tolist()
    said["params"] = _plain_params(model)
    go_on(model, rows, asked, way)
    said["next_labels"] = np.asarray(model.labels_).tolist()
    said["next_predict"] = np.asarray(model.predict(X)).tolist()
    said["next_score"] = float(model.score(X))
    return said


def go_on(model: Any, rows: Rows, asked: str, way: str) -> None:
    """Learn what comes next, in the way of the class."""
    kind, _, which = way.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "partial_fit":
            model.partial_fit(given(rows, asked), **({"time": np.datetime64(which)} if which else {}))
        elif kind == "resume":
            model.resume(given(rows, which), 3)


def _plain_params(model: Any) -> dict[str, Any]:
    def is_plain(value: Any) -> bool:
        return value is None or isinstance(value, bool | int | float | str)

    return {name: value for name, value in model.get_params().items() if is_plain(value)}


def run_stream(folder: Path, options: list[str], X: np.ndarray) -> None:
    """`armillary stream` over the rows, with its state and its answers in a folder; it goes on where it was."""
    from armillary.cli.app import run

    lines = [json.dumps({"id": f"r{number}", "vector": row}) for number, row in enumerate(X.tolist())]
    (folder / "rows.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    before, code = sys.argv, None
    sys.argv = ["armillary", "stream", "rows.jsonl", "-o", "ids.jsonl", "--state", "state", *options]
    try:
        with chdir(folder):
            run()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    assert not code, f"armillary stream {' '.join(options)} ended with {code}"


def write(commit: str) -> None:
    """All archives of a commit."""
    home = DATA / commit
    home.mkdir()  # an archive is written once
    rows = make_rows()
    np.savez_compressed(home / "rows.npz", **rows)
    answers: dict[str, Any] = {"models": {}, "streams": {}}
    for name, (make, asked, way) in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(rows)
        ar.save(model, home / f"{name}.safetensors")
        answers["models"][name] = answers_of(model, rows, asked, way)
    X = np.vstack([rows["narrow"], rows["narrow_new"]])
    for name, options in STREAMS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            run_stream(folder, options, X[:N_STREAMED])
            (home / f"stream_{name}.state").write_bytes((folder / "state").read_bytes())
            run_stream(folder, options, X)
            answers["streams"][name] = {"options": options, "ids": (folder / "ids.jsonl").read_text().splitlines()}
    (home / "answers.json").write_text(json.dumps(answers) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
