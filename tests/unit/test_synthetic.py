"""Synthetic data: seeds repeat, rows follow the truth that comes with them, and errors say what to do.

Statistical tests compare a statistic of known law with its quantile; `ALARM` is the chance that a right sampler
fails one of them. Seeds are fixed, so they do not fail by chance from day to day.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom, chi2, norm

from armillary.datasets import (
    _drawing,
    make_drifting_mixture,
    make_sparse_topics,
    make_tangent_gaussian_mixture,
    make_vmf_mixture,
    topics,
)
from armillary.distributions import vmf
from armillary.exceptions import ParameterError
from armillary.geometry import sphere

ALARM = 1e-7

MAKERS = {
    "vmf": lambda **options: make_vmf_mixture(300, 4, 5, concentration=(10.0, 100.0), **options),
    "tangent": lambda **options: make_tangent_gaussian_mixture(300, 4, 5, **options),
    "drifting": lambda **options: make_drifting_mixture(100, 4, 5, 6, death_probability=0.3, **options),
    "topics": lambda **options: make_sparse_topics(300, 200, 5, **options),
}


def leaves(value):
    """Every array in what a maker returns, in a fixed order."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if dataclasses.is_dataclass(value):
        return leaves([getattr(value, field.name) for field in dataclasses.fields(value)])
    return [value.toarray() if sp.issparse(value) else np.asarray(value)]


def angles_between(directions):
    """Angles (K, K), pi on the diagonal."""
    angles = np.arccos(np.clip(directions @ directions.T, -1.0, 1.0))
    np.fill_diagonal(angles, math.pi)
    return angles


def assert_counts_follow(counts, probabilities):
    """Pearson's statistic of multinomial counts; all expected counts should be 5 or more."""
    expected = counts.sum() * probabilities
    assert expected.min() >= 5.0
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(ALARM, len(counts) - 1)


def assert_share(n_hits, n, probability):
    low, high = binom.ppf([ALARM, 1.0 - ALARM], n, probability)
    assert low <= n_hits <= high


def assert_vmf(rows, direction, concentration):
    """The two parts of the mean: along the direction, and across it (a chi-square with D - 1 degrees)."""
    n, dimension = rows.shape
    length = float(vmf.mean_resultant_length(dimension, concentration))
    along = rows @ direction
    variance = 1.0 - length**2 - (dimension - 1) * length / concentration
    assert abs(along.mean() - length) < norm.isf(ALARM) * math.sqrt(variance / n)
    across = rows.mean(axis=0) - along.mean() * direction
    assert float(across @ across) * n * concentration / length < chi2.isf(ALARM, dimension - 1)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
class TestEveryMaker:
    def test_a_seed_gives_the_same_data(self, make):
        for first, second in zip(leaves(make(random_state=3)), leaves(make(random_state=3)), strict=True):
            np.testing.assert_array_equal(first, second)

    def test_another_seed_gives_other_data(self, make):
        assert not np.array_equal(leaves(make(random_state=3))[0], leaves(make(random_state=4))[0])

    def test_a_generator_is_used_and_moves_on(self, make):
        rng = np.random.default_rng(3)
        first, second = leaves(make(random_state=rng))[0], leaves(make(random_state=rng))[0]
        np.testing.assert_array_equal(first, leaves(make(random_state=3))[0])
        assert not np.array_equal(first, second)

    def test_float32_rows_are_the_float64_rows_rounded(self, make):
        wide, narrow = make(random_state=3)[0], make(random_state=3, dtype=np.float32)[0]
        for rows, rounded in zip(leaves(wide), leaves(narrow), strict=True):
            assert rows.dtype == np.float64
            assert rounded.dtype == np.float32
            np.testing.assert_array_equal(rows.astype(np.float32), rounded)

    def test_rows_are_unit(self, make):
        for rows in leaves(make(random_state=3)[0]):
            np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=0, atol=1e-14)

    def test_labels_are_int64_and_one_per_row(self, make):
        X, labels, _ = make(random_state=3)
        batches = list(zip(X, labels, strict=True)) if isinstance(X, list) else [(X, labels)]
        for rows, batch in batches:
            assert batch.dtype == np.int64
            assert batch.shape == (rows.shape[0],)

    def test_weights_of_clusters(self, make):
        _, labels, truth = make(random_state=3, weights=[0, 1, 0, 3, 0])
        np.testing.assert_array_equal(truth.weights, [0.0, 0.25, 0.0, 0.75, 0.0])
        assert set(np.concatenate(leaves(labels))) == {1, 3}

    def test_the_truth_is_frozen(self, make):
        truth = make(random_state=3)[2]
        with pytest.raises(dataclasses.FrozenInstanceError):
            truth.weights = None

    @pytest.mark.parametrize(
        "weights", [[1, 1], [1, 1, 1, 1, -1], [0] * 5, [1, 1, 1, 1, math.nan], np.ones((5, 1)), list("abcde")]
    )
    def test_unusable_weights(self, make, weights):
        with pytest.raises(ParameterError, match=r"`weights` of make_\w+ must be 5 numbers .*; got .*Leave it out"):
            make(weights=weights)

    @pytest.mark.parametrize("dtype", [np.int64, np.float16, "complex128"])
    def test_unusable_dtype(self, make, dtype):
        with pytest.raises(ParameterError, match=r"`dtype` of make_\w+ must be float32 or float64; got .*Convert X"):
            make(dtype=dtype)


@pytest.mark.parametrize(
    "make", [make_vmf_mixture, make_tangent_gaussian_mixture, make_drifting_mixture, make_sparse_topics]
)
@pytest.mark.parametrize(
    ("sizes", "name", "low"), [((0, 3, 2), "n_samples", 1), ((9, 1, 2), "n_features", 2), ((9, 3, 0), "n_clusters", 1)]
)
def test_unusable_sizes(make, sizes, name, low):
    steps = (2,) if make is make_drifting_mixture else ()
    with pytest.raises(ParameterError, match=rf"`{name}` of {make.__name__} must be an int >= {low}; got {low - 1}"):
        make(*sizes, *steps)


def three_steps(n_samples, n_features, n_clusters, **options):
    return make_drifting_mixture(n_samples, n_features, n_clusters, 3, **options)


@pytest.mark.parametrize("make", [make_vmf_mixture, make_tangent_gaussian_mixture, three_steps])
class TestDirectionsAndNoise:
    @pytest.mark.parametrize(("n_features", "n_clusters", "min_angle"), [(2, 5, 0.8), (3, 30, 0.3), (50, 40, 1.2)])
    def test_min_angle_is_kept(self, make, n_features, n_clusters, min_angle):
        directions = make(10, n_features, n_clusters, min_angle=min_angle, random_state=0)[2].directions
        if directions.ndim == 3:  # the angle holds at the first step
            directions = directions[0]
        np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, rtol=0, atol=1e-14)
        assert angles_between(directions).min() >= min_angle - 1e-12

    @pytest.mark.parametrize(("n_features", "n_clusters", "min_angle"), [(2, 4, 1.6), (3, 100, 0.5), (3, 3, math.pi)])
    def test_no_room_for_the_directions(self, make, n_features, n_clusters, min_angle):
        # four arcs of 1.6 exceed the circle; caps of 0.25 radians cover 1.55% of the sphere each; two are antipodes
        sentence = rf"`min_angle` of make_\w+ .* got {min_angle} for {n_clusters} clusters in {n_features} dimensions"
        with pytest.raises(ParameterError, match=sentence + r".*found no place after \d+\. Lower min_angle"):
            make(10, n_features, n_clusters, min_angle=min_angle, random_state=0)

    def test_min_angle_is_in_radians(self, make):
        with pytest.raises(ParameterError, match=r"`min_angle` of .* in \[0, 3.14159\]; got 30.*radians"):
            make(10, 3, 2, min_angle=30)

    def test_noise_is_uniform_and_as_frequent_as_asked(self, make):
        X, labels, _ = make(4000, 3, 2, noise=0.3, random_state=5)
        X, labels = np.concatenate(leaves(X)), np.concatenate(leaves(labels))
        rows = X[labels == -1]
        assert_share(len(rows), len(X), 0.3)
        # uniform rows have covariance I/D
        mean = rows.mean(axis=0)
        assert len(rows) * 3 * float(mean @ mean) < chi2.isf(ALARM, 3)
        assert_counts_follow(np.bincount(np.digitize(rows[:, 2], [-0.5, 0.0, 0.5])), np.full(4, 0.25))

    def test_only_noise(self, make):
        labels = make(20, 3, 2, noise=1.0, random_state=0)[1]
        assert set(np.concatenate(leaves(labels))) == {-1}

    @pytest.mark.parametrize("noise", [-0.1, 1.5, "0.1"])
    def test_unusable_noise(self, make, noise):
        with pytest.raises(ParameterError, match=r"`noise` of make_\w+ must be a number in \[0, 1\]; got .*uniform"):
            make(10, 3, 2, noise=noise)


class TestVmfMixture:
    @pytest.mark.parametrize("n_features", [2, 3, 20])
    def test_rows_follow_the_truth(self, n_features):
        X, labels, truth = make_vmf_mixture(20_000, n_features, 4, concentration=(2.0, 2000.0), random_state=n_features)
        for k in range(4):
            assert_vmf(X[labels == k], truth.directions[k], truth.concentrations[k])

    def test_the_check_above_sees_a_wrong_direction_or_concentration(self):
        X, _, truth = make_vmf_mixture(20_000, 3, 1, concentration=50.0, random_state=0)
        turned = sphere.exp(0.01 * sphere.tangent_frame(truth.directions[0])[:, 0], truth.directions[0])
        with pytest.raises(AssertionError):
            assert_vmf(X, turned, 50.0)
        with pytest.raises(AssertionError):
            assert_vmf(X, truth.directions[0], 47.0)

    @pytest.mark.parametrize("n_features", [2, 3, 40, 500])
    def test_default_concentration_gives_mean_cosine_09(self, n_features):
        truth = make_vmf_mixture(1, n_features, 2, random_state=0)[2]
        np.testing.assert_allclose(vmf.mean_resultant_length(n_features, truth.concentrations), 0.9, rtol=1e-12)

    def test_a_tuple_is_a_range_and_a_list_is_one_each(self):
        drawn = make_vmf_mixture(1, 3, 2, concentration=(20.0, 200.0), random_state=0)[2].concentrations
        given = make_vmf_mixture(1, 3, 2, concentration=[20.0, 200.0], random_state=0)[2].concentrations
        np.testing.assert_array_equal(given, [20.0, 200.0])
        assert ((drawn > 20.0) & (drawn < 200.0)).all()

    def test_a_range_is_uniform_in_the_logarithm(self):
        drawn = make_vmf_mixture(1, 3, 4000, concentration=(1.0, 10_000.0), random_state=0)[2].concentrations
        assert_counts_follow(np.bincount(np.floor(np.log10(drawn)).astype(int)), np.full(4, 0.25))

    def test_directions_are_uniform(self):
        directions = make_vmf_mixture(1, 3, 4000, random_state=0)[2].directions
        # Archimedes: every coordinate of a uniform direction in 3-D is uniform
        for column in directions.T:
            assert_counts_follow(np.bincount(np.digitize(column, [-0.5, 0.0, 0.5])), np.full(4, 0.25))

    def test_labels_follow_the_weights(self):
        labels = make_vmf_mixture(10_000, 3, 3, weights=[1, 2, 7], random_state=0)[1]
        assert_counts_follow(np.bincount(labels), np.array([0.1, 0.2, 0.7]))

    def test_concentration_zero_is_uniform(self):
        X, _, _ = make_vmf_mixture(8000, 3, 1, concentration=0.0, random_state=0)
        assert_counts_follow(np.bincount(np.digitize(X[:, 0], [-0.5, 0.0, 0.5])), np.full(4, 0.25))

    def test_ten_thousand_dimensions(self):
        X, labels, truth = make_vmf_mixture(300, 10_000, 3, min_angle=1.5, random_state=0)
        cosines = X @ truth.directions.T
        np.testing.assert_array_equal(cosines.argmax(axis=1), labels)
        np.testing.assert_allclose(cosines.max(axis=1), 0.9, atol=0.02)  # deviation of the cosine here is 0.0019

    def test_blocks_bound_the_scratch_memory(self, monkeypatch):
        drawn = []

        def spy(mean, concentration, size, random_state):
            drawn.append(size)
            return vmf_sample(mean, concentration, size, random_state)

        vmf_sample = vmf.sample
        monkeypatch.setattr(_drawing.vmf, "sample", spy)
        monkeypatch.setattr(_drawing, "BLOCK_VALUES", 60)
        X, labels, truth = make_vmf_mixture(300, 3, 2, concentration=1e4, noise=0.2, random_state=0)
        assert max(drawn) <= 20
        is_row = labels >= 0
        assert ((X[is_row] * truth.directions[labels[is_row]]).sum(axis=1) > 0.99).all()

    @pytest.mark.parametrize(
        "concentration", [-1.0, math.inf, math.nan, (0.0, 5.0), (5.0, 2.0), (1.0, 2.0, 3.0), [1.0, 2.0], "many"]
    )
    def test_unusable_concentration(self, concentration):
        sentence = r"`concentration` of make_vmf_mixture must be a number >= 0, a tuple .*list of 3 numbers.*; got "
        with pytest.raises(ParameterError, match=sentence + r".*Leave it out"):
            make_vmf_mixture(10, 3, 3, concentration=concentration)


class TestTangentGaussianMixture:
    @pytest.mark.parametrize("n_features", [2, 3, 8])
    def test_rows_follow_the_truth(self, n_features):
        p = n_features - 1
        X, labels, truth = make_tangent_gaussian_mixture(60_000, n_features, 3, spread=0.15, random_state=n_features)
        assert not truth.is_wrapped.any()
        for k in range(3):
            frame = sphere.tangent_frame(truth.directions[k])
            covariance = frame.T @ truth.covariances[k] @ frame
            tangents = sphere.log(X[labels == k], truth.directions[k]) @ frame
            white = np.linalg.solve(np.linalg.cholesky(covariance), tangents.T)
            n = white.shape[1]
            # entries of the mean have deviation 1/sqrt(n); of the scatter, 1/sqrt(n) beside the diagonal
            limit = norm.isf(ALARM / p**2) / math.sqrt(n)
            assert np.abs(white.mean(axis=1)).max() < limit
            scatter = white @ white.T / n
            assert np.abs(scatter - np.diag(np.diag(scatter))).max(initial=0.0) < limit
            for total in (white**2).sum(axis=1):
                assert chi2.ppf(ALARM, n) < total < chi2.isf(ALARM, n)

    @pytest.mark.parametrize("n_features", [2, 3, 6])
    def test_covariances_live_in_the_tangent_space(self, n_features):
        truth = make_tangent_gaussian_mixture(1, n_features, 4, random_state=0)[2]
        for direction, covariance in zip(truth.directions, truth.covariances, strict=True):
            np.testing.assert_allclose(covariance, covariance.T, rtol=0, atol=1e-15)
            np.testing.assert_allclose(covariance @ direction, 0.0, atol=1e-15)
            assert np.linalg.matrix_rank(covariance, tol=1e-10) == n_features - 1

    @pytest.mark.parametrize(("n_features", "degrees"), [(2, 30.0), (3, 30.0), (6, 60.0)])
    def test_mean_covariance_is_the_square_of_the_spread(self, n_features, degrees):
        p, n_clusters, spread = n_features - 1, 3000, 0.2
        truth = make_tangent_gaussian_mixture(
            1, n_features, n_clusters, spread=spread, degrees_of_freedom=degrees, random_state=0
        )[2]
        traces = np.trace(truth.covariances, axis1=1, axis2=2) / spread**2
        # variance of the trace of an inverse Wishart matrix with mean I
        variance = 2.0 * p * (degrees - 1.0) / ((degrees - p) * (degrees - p - 3.0))
        assert abs(traces.mean() - p) < norm.isf(ALARM) * math.sqrt(variance / n_clusters)

    def test_infinite_degrees_of_freedom_make_round_clusters(self):
        truth = make_tangent_gaussian_mixture(1, 4, 3, spread=0.2, degrees_of_freedom=math.inf, random_state=0)[2]
        for direction, covariance in zip(truth.directions, truth.covariances, strict=True):
            np.testing.assert_allclose(covariance, 0.04 * (np.eye(4) - np.outer(direction, direction)), atol=1e-15)

    def test_spread_zero_puts_rows_on_their_directions(self):
        X, labels, truth = make_tangent_gaussian_mixture(50, 3, 4, spread=0.0, random_state=0)
        np.testing.assert_allclose(X, truth.directions[labels], atol=1e-15)

    def test_wide_gaussians_wrap_and_say_so(self):
        options = {"spread": 3.0, "degrees_of_freedom": math.inf, "random_state": 0}
        X, _, truth = make_tangent_gaussian_mixture(20_000, 2, 1, **options)
        assert_share(truth.is_wrapped.sum(), 20_000, 2.0 * norm.sf(math.pi / 3.0))
        angles = sphere.angle(X, truth.directions[0])
        # kept lengths are below pi and half-normal; the wrapped ones come back over the whole circle
        assert angles[truth.is_wrapped].min() < 0.1
        below_one = (norm.cdf(1.0 / 3.0) - 0.5) / (norm.cdf(math.pi / 3.0) - 0.5)
        assert_share((angles[~truth.is_wrapped] < 1.0).sum(), (~truth.is_wrapped).sum(), below_one)

    @pytest.mark.parametrize("degrees", [4.0, 0.0, -1.0, math.nan])
    def test_too_few_degrees_of_freedom(self, degrees):
        with pytest.raises(
            ParameterError, match=r"`degrees_of_freedom` .* must be above 4 = n_features.*; got .*Use 6"
        ):
            make_tangent_gaussian_mixture(10, 4, 2, degrees_of_freedom=degrees)

    def test_unusable_spread(self):
        with pytest.raises(ParameterError, match=r"`spread` of .* must be a number >= 0; got -0.1.*radians"):
            make_tangent_gaussian_mixture(10, 4, 2, spread=-0.1)


class TestDriftingMixture:
    def test_rows_follow_the_directions_of_their_step(self):
        X, labels, truth = make_drifting_mixture(
            6000, 3, 2, 4, concentration=40.0, drift_concentration=2.0, random_state=1
        )
        for step in range(4):
            for k in range(2):
                assert_vmf(X[step][labels[step] == k], truth.directions[step, k], 40.0)

    def test_steps_are_von_mises_fisher(self):
        truth = make_drifting_mixture(1, 5, 300, 11, concentration=20.0, drift_concentration=3.0, random_state=0)[2]
        np.testing.assert_array_equal(truth.step_concentrations, 60.0)
        cosines = (truth.directions[1:] * truth.directions[:-1]).sum(axis=-1)
        length = float(vmf.mean_resultant_length(5, 60.0))
        variance = 1.0 - length**2 - 4.0 * length / 60.0
        assert abs(cosines.mean() - length) < norm.isf(ALARM) * math.sqrt(variance / cosines.size)

    def test_a_rotation_alone_turns_all_directions_in_one_plane(self):
        truth = make_drifting_mixture(1, 5, 4, 8, rotation=0.1, random_state=0)[2]
        assert np.isinf(truth.step_concentrations).all()
        np.testing.assert_allclose(truth.rotation_plane @ truth.rotation_plane.T, np.eye(2), atol=1e-14)
        in_plane = truth.directions @ truth.rotation_plane.T
        outside = truth.directions - in_plane @ truth.rotation_plane
        np.testing.assert_allclose(outside, np.broadcast_to(outside[0], outside.shape), atol=1e-14)
        phases = np.unwrap(np.arctan2(in_plane[..., 1], in_plane[..., 0]), axis=0)
        np.testing.assert_allclose(np.diff(phases, axis=0), 0.1, atol=1e-13)

    @pytest.mark.parametrize("concentration", [0.0, 10.0])
    def test_infinite_drift_concentration_stands_still(self, concentration):
        options = {"concentration": concentration, "drift_concentration": math.inf}
        truth = make_drifting_mixture(1, 3, 4, 5, **options, random_state=0)[2]
        np.testing.assert_array_equal(truth.directions, np.broadcast_to(truth.directions[0], truth.directions.shape))

    def test_absent_clusters_have_no_rows(self):
        X, labels, truth = make_drifting_mixture(500, 3, 6, 30, death_probability=0.3, random_state=0)
        assert truth.is_present[0].all()
        assert not truth.is_present.all()
        for step in range(30):
            present = set(np.flatnonzero(truth.is_present[step]))
            # at 1/6 and more of 500 rows, a cluster that is present is missed with probability 6 (5/6)^500 < 1e-38
            assert set(labels[step]) == present
            assert len(X[step]) == (500 if present else 0)

    def test_deaths_and_revivals_come_as_often_as_asked(self):
        chances = {"death_probability": 0.1, "revival_probability": 0.25}
        present = make_drifting_mixture(1, 2, 200, 100, **chances, random_state=0)[2].is_present
        before, after = present[:-1], present[1:]
        assert_share((before & ~after).sum(), before.sum(), 0.1)
        assert_share((~before & after).sum(), (~before).sum(), 0.25)

    def test_an_explicit_schedule_is_kept_and_copied(self):
        schedule = np.array([[True, False], [False, False], [True, True]])
        X, labels, truth = make_drifting_mixture(40, 3, 2, 3, is_present=schedule, random_state=0)
        np.testing.assert_array_equal(truth.is_present, schedule)
        assert truth.is_present is not schedule
        assert [set(batch) for batch in labels] == [{0}, set(), {0, 1}]
        assert [rows.shape for rows in X] == [(40, 3), (0, 3), (40, 3)]

    def test_a_step_without_clusters_keeps_its_noise(self):
        X, labels, _ = make_drifting_mixture(1000, 3, 1, 1, is_present=[[False]], noise=0.2, random_state=0)
        assert_share(len(X[0]), 1000, 0.2)
        assert set(labels[0]) == {-1}

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (
                {"drift_concentration": 0.0},
                r"`drift_concentration` of .* \(0, inf\], in units .*; got 0.0\. Use math.inf",
            ),
            ({"drift_concentration": math.nan}, r"`drift_concentration` of .*got nan"),
            ({"rotation": 90}, r"`rotation` of .*got 90.*radians"),
            ({"death_probability": 1.1}, r"`death_probability` of .* in \[0, 1\]; got 1.1"),
            ({"revival_probability": -1}, r"`revival_probability` of .* in \[0, 1\]; got -1"),
            (
                {"is_present": [[True, True]]},
                r"`is_present` of .* = \(3, 2\); got bool of shape \(1, 2\)\. Leave it out",
            ),
            ({"is_present": np.ones((3, 2))}, r"`is_present` of .* must be booleans .*; got float64 of shape \(3, 2\)"),
            (
                {"is_present": np.ones((3, 2), dtype=bool), "death_probability": 0.1},
                r"`is_present` and `death_probability` of .* exclude each other.*; got both.*Leave one of them out",
            ),
        ],
    )
    def test_unusable_parameters(self, options, sentence):
        with pytest.raises(ParameterError, match=sentence):
            make_drifting_mixture(10, 3, 2, 3, **options)

    def test_unusable_number_of_steps(self):
        with pytest.raises(ParameterError, match=r"`n_steps` of make_drifting_mixture must be an int >= 1; got 0"):
            make_drifting_mixture(10, 3, 2, 0)


class TestSparseTopics:
    @staticmethod
    def counts_of(X, truth):
        """Word counts behind tf-idf rows: the idf is known, and the length of the document fixes the scale."""
        n_documents, _ = X.shape
        idf = np.log((1 + n_documents) / (1 + (X > 0).sum(axis=0))) + 1
        shares = X.toarray() / idf
        return shares * (truth.document_lengths / shares.sum(axis=1))[:, None]

    def test_rows_are_tf_idf_of_whole_counts(self):
        X, _, truth = make_sparse_topics(400, 60, 3, random_state=0)
        assert isinstance(X, sp.csr_array)
        assert X.has_canonical_format
        assert X.indices.dtype == np.int32
        assert (X.data > 0).all()
        counts = self.counts_of(X, truth)
        np.testing.assert_allclose(counts, np.rint(counts), atol=1e-10)

    def test_words_follow_the_truth(self):
        X, labels, truth = make_sparse_topics(3000, 40, 3, n_topic_words=7, topic_share=0.4, random_state=1)
        counts = np.rint(self.counts_of(X, truth))
        probabilities = truth.word_probabilities()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
        for k in range(3):
            assert_counts_follow(counts[labels == k].sum(axis=0), probabilities[k])

    def test_frequencies_are_zipf(self):
        truth = make_sparse_topics(5, 50, 2, zipf_exponent=1.5, n_topic_words=8, random_state=0)[2]
        ranked = np.sort(truth.background)[::-1]
        np.testing.assert_allclose(ranked / ranked[0], np.arange(1.0, 51.0) ** -1.5, rtol=1e-13)
        in_topic = truth.topic_word_probabilities
        np.testing.assert_allclose(in_topic / in_topic[0], np.arange(1.0, 9.0) ** -1.5, rtol=1e-13)

    def test_with_full_share_documents_have_topic_words_only(self):
        X, labels, truth = make_sparse_topics(200, 500, 4, topic_share=1.0, n_topic_words=20, random_state=0)
        for k in range(4):
            words = np.unique(X[labels == k].indices)
            assert set(words) <= set(truth.topic_words[k])
            assert len(set(truth.topic_words[k])) == 20

    def test_lengths_have_the_mean_asked_for(self):
        lengths = make_sparse_topics(20_000, 10, 2, document_length=50.0, random_state=0)[2].document_lengths
        assert lengths.min() >= 1
        # log-normal with deviation 0.5 of the logarithm: relative variance e^0.25 - 1; rounding adds 1/12
        deviation = math.sqrt(50.0**2 * math.expm1(0.25) + 1 / 12)
        assert abs(lengths.mean() - 50.0) < norm.isf(ALARM) * deviation / math.sqrt(20_000)

    def test_one_word_documents(self):
        X, _, _ = make_sparse_topics(100, 30, 2, document_length=1.0, random_state=0)
        assert (np.diff(X.indptr) >= 1).all()

    def test_blocks_of_documents_follow_the_same_truth(self, monkeypatch):
        monkeypatch.setattr(topics, "BLOCK_VALUES", 3000)
        X, labels, truth = make_sparse_topics(2000, 40, 2, n_topic_words=7, random_state=2)
        counts = np.rint(self.counts_of(X, truth))
        np.testing.assert_array_equal(counts.sum(axis=1), truth.document_lengths)
        for k in range(2):
            assert_counts_follow(counts[labels == k].sum(axis=0), truth.word_probabilities()[k])

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"document_length": 0.5}, r"`document_length` of .* in .1, 1e.06.; got 0.5"),
            ({"topic_share": 2.0}, r"`topic_share` of .* in \[0, 1\]; got 2.0"),
            ({"zipf_exponent": -1.0}, r"`zipf_exponent` of .* >= 0; got -1.0"),
            ({"n_topic_words": 21}, r"`n_topic_words` of .* from 1 to 20; got 21\. The vocabulary is n_features"),
        ],
    )
    def test_unusable_parameters(self, options, sentence):
        with pytest.raises(ParameterError, match=sentence):
            make_sparse_topics(10, 20, 2, **options)
