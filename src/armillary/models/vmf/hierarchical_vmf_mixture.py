"""H-vMFmix: a mixture of von Mises-Fisher distributions whose mean directions hang on a tree.

Story        mu_j ~ vMF(mu_parent, kappa_parent) down the tree, log kappa_j ~ Normal(m, s2) of its group,
             pi ~ Dirichlet(alpha) over the leaves, z_i ~ Categorical(pi),
             x_i ~ vMF(mu_leaf, kappa_leaf)                                               vmf_mixtures.md, 8
Root         "random": a node like others, its direction uniform; "point": the pair (mu_0, C_0) of a flat mixture
Labels       softmax over leaves of E[log pi] - E[log H(kappa)] + x.E[kappa mu]           5.3, 5.6
Tree         messages up and down: laws of directions given all rows; inner kappa by the evidence of its children
             (8.2); or factorised, with a bound that does not fall (8.1, Gopal and Yang 3)
Priors       alpha, m and s2 of leaves and of inner nodes, and mu_0, C_0 of a point root by empirical Bayes  5.5, 8
Row order    does not matter to the model; it matters to k-means++ draws and to the last bits of sums

Departures from the paper: messages, since the factorised form underestimates the concentrations of inner nodes two- to
threefold; leaves and inner nodes with priors of their own, since one is the spread of rows and the other of directions;
a root whose parent is said; the start top-down and from a short tied EM run; the errata of vmf_mixtures.md, 15.

The estimator is here. `_hierarchical_vmf_fit.py` has its parameters, the start, each update and the chain of a fit;
`distributions/direction_trees.py` the mathematics of the nodes; `_tree_view.py` what is shown of a tree.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, FloatArray, IntArray, RandomState
from armillary.distributions import bessel
from armillary.distributions.component_factors import first_factors
from armillary.distributions.direction_trees import Nodes, Tree
from armillary.distributions.dirichlet import DirichletWeights
from armillary.distributions.log_concentration import HIGHEST, MixturePrior
from armillary.distributions.natural_vectors import natural_lengths
from armillary.distributions.predictive import PredictiveDensity
from armillary.engines.contract import Here
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.loop import best_run
from armillary.geometry import sphere
from armillary.models.labels_out import best_labels_to, labels_to
from armillary.models.mixture import best_labels
from armillary.models.saved_state import SavedRecord
from armillary.models.turns import learning, reading
from armillary.models.vmf import _variational_vmf as v
from armillary.models.vmf._hierarchical_vmf_fit import Ascent, Parameters, State, inner_means
from armillary.models.vmf._predictive_mixture import PredictiveMixture
from armillary.models.vmf._tree_view import TreeNode, merges, nested_json, newick, tree_nodes
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_flag, check_integer

# A mean direction shorter than 1 by less than rounding would have an infinite concentration.
_LEAST_GAP = 2.0**-52


@dataclass(frozen=True, eq=False)
class SavedState(SavedRecord):
    """What scores and densities need beside the public attributes: the law of each leaf."""

    prior_directions: Float64Array  # (L, D) what the tree says of each leaf: the vMF law of its mean direction
    prior_concentrations: Float64Array  # (L,) without its own rows
    expected_log_h: Float64Array  # (L,) E[log H(kappa)]
    natural_coefficients: Float64Array  # (L, 2) E[kappa mu] as a combination of resultants and prior directions
    grid_concentrations: Float64Array  # (G, L) q(kappa) as weighted nodes
    grid_weights: Float64Array  # (G, L)
    grid_pulls: Float64Array  # (G, L) there mu has the natural vector pull * resultant + the tree's


class HierarchicalVonMisesFisherMixture(PredictiveMixture):
    """Mixture of von Mises-Fisher distributions whose mean directions hang on a tree.

    Rows are normalised first. Each leaf of the tree is a component; the direction of a node is drawn around that of its
    parent, so that leaves with few rows borrow from their relatives, and inner nodes say what their leaves have in
    common. The shape of the tree is given, which rows go where is found.

    Parameters
    ----------
    height, branching : int, default=2 and 3
        A tree with branching^height leaves, `height` steps below the root.
    parents : array of shape (J,) or None, default=None
        In place of the two above, any tree: the parent of each node, -1 for none. Parents come before their children;
        nodes without children are the leaves. There may be several tops.
    root : {"random", "point"}, default="random"
        "random": the root is node 0 and has a law as other nodes have; what is above the tops, (mu_0, C_0), stays as
        given, by default uniform. "point": the root is no node but the pair (mu_0, C_0), learned with
        `empirical_bayes`; its children are the tops (with `parents`, the nodes whose parent is -1). Height 1 is then
        `BayesianVonMisesFisherMixture`.
    inference : {"messages", "factorised"}, default="messages"
        Laws of directions by messages along the tree, close to the exact ones given labels and concentrations; or
        independent laws of all nodes, as in the paper, with a lower bound that never falls. The latter sees inner
        concentrations two to three times too low.
    groups : {"separate", "shared"}, default="separate"
        Log concentrations of leaves and of inner nodes have a prior each, or one together, as in the paper.
    concentration_posterior, log_normal_bound : as in `BayesianVonMisesFisherMixture`
        q(kappa) of all nodes.
    empirical_bayes : bool, default=True
        Let the prior parameters below maximise the bound; those given are then starts. m and s2 of a group with fewer
        than three nodes stay, and so do mu_0 and C_0 unless there are several tops below a point root.
    weight_concentration_prior : float, default=1.0
        alpha of the Dirichlet law of the weights of leaves.
    mean_direction_prior : array of shape (D,) or None, default=None
        mu_0 of the tops; None takes the direction of the sum of all rows.
    mean_concentration_prior : float, default=0.0
        C_0 of the tops; 0 makes all directions equally likely.
    log_concentration_mean_prior, log_concentration_variance_prior : float or None, default=None and 1.0
        m and s2 of the leaves (with shared groups, of all nodes). None takes m from the start.
    inner_log_concentration_mean_prior, inner_log_concentration_variance_prior : as above
        m and s2 of the inner nodes; s2 is at least 0.01.
    init : "top_down" or array of shape (L, D), default="top_down"
        First directions of the leaves: the rows of each node are dealt to its children by spherical k-means, from the
        top down; or as given. A short tied EM run follows.
    n_init : int, default=1
        Runs, each from its own draw; the one with the highest `lower_bound_` is kept.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when two steps in a row gain at most this fraction of the lower bound over the uniform law; with messages,
        change their estimate by at most that.
    random_state : int, Generator, RandomState or None, default=None
        Seed of starts and Metropolis steps.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the objective is that of `lower_bound_`, over the uniform law of the rows.

    Attributes
    ----------
    parents_ : array of shape (J,), int64
        The parent of each node, -1 for none.
    tree_ : list of TreeNode
        The nodes in order: number, parent, children, level, path, component, direction, concentration, weight, count.
    children_ : array of shape (I, B), int64
        The children of inner nodes as scikit-learn numbers them: leaves are 0 to L - 1 in the order of components, and
        row i is node L + i, children before parents; -1 fills up nodes with fewer children.
    leaves_ : array of shape (L,), int64
        The node of each component.
    weights_ : array of shape (L,)
        Expected weights of the leaves.
    means_, concentrations_, concentration_deviations_ : arrays of shape (L, D), (L,) and (L,)
        Of the leaves: unit directions of the expected mean directions, mean and standard deviation of kappa.
    inner_means_, inner_concentrations_, inner_concentration_deviations_ : arrays of shape (I, D), (I,) and (I,)
        The same of the inner nodes, in order: their kappa says how close the directions of their children are.
    node_means_, node_concentrations_ : arrays of shape (J, D) and (J,)
        Of all nodes.
    log_concentrations_, log_concentration_variances_ : arrays of shape (L,)
        Mean and variance of log kappa of the leaves.
    posterior_concentrations_, inner_posterior_concentrations_ : arrays of shape (L,) and (I,)
        How well the mean directions are known: the concentration of the vMF law with the same mean.
    labels_ : array of shape (n,), int32
        The most probable leaf of each row, as a component: `predict` of the training rows.
    lower_bound_ : float
        "factorised": the evidence lower bound in nats, with respect to the surface of the sphere. "messages": an
        estimate of the log evidence, which is no bound and may fall from step to step.
    lower_bounds_ : array of shape (n_iter_,)
        Its trace over the steps of the run that was kept.
    n_clusters_ : int
        Leaves whose expected count is at least half a row.
    weight_concentration_ : float
        alpha.
    mean_direction_, mean_concentration_ : array of shape (D,), float
        mu_0 and C_0.
    log_concentration_mean_, log_concentration_variance_ : float
        m and s2 of the leaves.
    inner_log_concentration_mean_, inner_log_concentration_variance_ : float
        m and s2 of the inner nodes.
    counts_, resultants_ : arrays of shape (L,) and (L, D)
        Expected weight and weighted sum of the rows of each leaf.
    n_iter_ : int
        Steps of the run that was kept.
    converged_ : bool
        Whether it stopped before `max_iter`.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step costs 4 n D L operations (4 nnz L for CSR rows, which stay sparse), as that of a flat mixture, and 4 D L^2
    for the products and combinations of the leaves' resultants (4 D J^2 with "factorised"). Results repeat to the bit
    for one `random_state`, whatever `n_threads`. With the factorised form on a grid the lower bound does not fall,
    after any single update.

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.

    Examples
    --------
    >>> from armillary import HierarchicalVonMisesFisherMixture
    >>> from armillary.datasets import make_vmf_tree
    >>> X, labels, truth = make_vmf_tree(600, 10, 2, 3, random_state=0)
    >>> model = HierarchicalVonMisesFisherMixture(2, 3, random_state=0).fit(X)
    >>> len(model.tree_), model.means_.shape
    (13, (9, 10))
    >>> sorted(set(model.predict(X, level=1).tolist()))
    [1, 2, 3]
    """

    _parameters_kind = Parameters
    _state_kind = SavedState
    _saved_state: SavedState

    def __init__(
        self,
        height: int = 2,
        branching: int = 3,
        *,
        parents: ArrayLike | None = None,
        root: str = "random",
        inference: str = "messages",
        groups: str = "separate",
        concentration_posterior: str = "grid",
        log_normal_bound: str = "quadrature",
        empirical_bayes: bool = True,
        weight_concentration_prior: float = 1.0,
        mean_direction_prior: ArrayLike | None = None,
        mean_concentration_prior: float = 0.0,
        log_concentration_mean_prior: float | None = None,
        log_concentration_variance_prior: float = 1.0,
        inner_log_concentration_mean_prior: float | None = None,
        inner_log_concentration_variance_prior: float = 1.0,
        init: str | ArrayLike = "top_down",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.height = height
        self.branching = branching
        self.parents = parents
        self.root = root
        self.inference = inference
        self.groups = groups
        self.concentration_posterior = concentration_posterior
        self.log_normal_bound = log_normal_bound
        self.empirical_bayes = empirical_bayes
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_direction_prior = mean_direction_prior
        self.mean_concentration_prior = mean_concentration_prior
        self.log_concentration_mean_prior = log_concentration_mean_prior
        self.log_concentration_variance_prior = log_concentration_variance_prior
        self.inner_log_concentration_mean_prior = inner_log_concentration_mean_prior
        self.inner_log_concentration_variance_prior = inner_log_concentration_variance_prior
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------------------------------------------------ fits

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X (n, D), dense or CSR; `y` is ignored.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        self
        """
        with self._fitting(X, sample_weight, Parameters.check) as (points, parameters, stream, passes, emitter):
            run = best_run(
                lambda restart: Ascent(passes, parameters, stream, restart),
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                stopping=parameters.stopping,
                emitter=emitter,
            )
            chain: Any = run.chain
            labels = best_labels(passes, v.score_rule(chain.state.expanded_leaves))
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=2)
        self._warn_of_bounds(chain.state)
        bounds = np.array(chain.trace) - points.total_weight * float(sphere.log_area(points.n_features))
        self._publish(
            X,
            is_new=True,
            **_described(chain.state, parameters.tree),
            labels_=labels,
            n_clusters_=chain.n_clusters,
            lower_bound_=float(bounds[-1]),
            lower_bounds_=bounds,
            n_iter_=run.n_steps,
            converged_=run.is_converged,
        )
        return self

    @learning
    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> IntArray:
        """`fit`; returns `labels_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        array of shape (n,), int32
            `labels_`.
        """
        return self.fit(X, y, sample_weight).labels_

    # ------------------------------------------------------------------------------------------------ predictions

    @reading
    def predict(self, X: Any, *, level: int | None = None, out: Any = None) -> IntArray:
        """The most probable leaf of each row of X (n,), as a component: its place in `means_`, int32.

        With a `level`, the number of the most probable node at that depth, int32: nodes as in `tree_`, of which
        `level_nodes(level)` lists those that can be. Level 0 has the tops: the root, or with a point root its
        children. A row belongs to a node with the sum of its responsibilities for the leaves below.

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        level : int, optional
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,), int32
            Components, or nodes of a level; where `out` was given, `out`.
        """
        points = self._points(X, is_new=False)
        nodes = None if level is None else self._nodes_of_leaves(level)
        if nodes is None:
            return best_labels_to(out, points, self._passes(points), self._rule())
        names, groups = np.unique(nodes, return_inverse=True)
        with labels_to(out, points.n_rows, np.int32, self._who) as place, self._passes(points) as passes:
            place.labels[:] = names[passes.values(self._rule(), _BestGroup(_indicators(groups)))]
        return place.result

    @reading
    def predict_proba(self, X: Any, *, level: int | None = None) -> FloatArray:
        """Responsibilities of the leaves for each row of X (n, L), or of the nodes `level_nodes(level)` of a level.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        level : int, optional

        Returns
        -------
        array of shape (n, L)
            Each row has the sum 1.
        """
        points = self._points(X, is_new=False)
        nodes = None if level is None else self._nodes_of_leaves(level)
        with self._passes(points) as passes:
            shares = passes.values(self._rule(), "shares")
        return shares if nodes is None else shares @ _indicators(np.unique(nodes, return_inverse=True)[1])

    # ---------------------------------------------------------------------------------------------------- the tree

    @property
    @reading
    def tree_(self) -> list[TreeNode]:
        """The nodes in order."""
        return tree_nodes(self._tree(), self.node_means_, self.node_concentrations_, self.weights_, self.counts_)

    @property
    @reading
    def children_(self) -> Nodes:
        """The children of inner nodes, as scikit-learn numbers them."""
        return merges(self._tree())

    @property
    @reading
    def leaves_(self) -> Nodes:
        """The node of each component (L,)."""
        return self._tree().leaves

    @property
    @reading
    def node_means_(self) -> Float64Array:
        """Unit directions of all nodes (J, D)."""
        return self._of_nodes(self.means_, self.inner_means_)

    @property
    @reading
    def node_concentrations_(self) -> Float64Array:
        """Mean concentrations of all nodes (J,)."""
        return self._of_nodes(self.concentrations_, self.inner_concentrations_)

    @reading
    def level_nodes(self, level: int) -> Nodes:
        """The numbers of the nodes that rows can be in at this depth: those there, and leaves that end above it.

        Parameters
        ----------
        level : int
            0 is that of the tops.

        Returns
        -------
        array of int
            Rising.
        """
        return np.unique(self._nodes_of_leaves(level))

    @reading
    def top_features(
        self, n: int = 10, feature_names: ArrayLike | None = None, *, beside_parent: bool = False
    ) -> npt.NDArray[Any]:
        """The features with the largest entries of each node's direction, largest first: (J, n), objects.

        `feature_names` (D,) are by default those that X had in `fit`; without them features are column numbers. With
        `beside_parent`, entries are taken less those of the parent: what sets a node apart. Tops keep theirs.

        Parameters
        ----------
        n : int, default=10
            How many.
        feature_names : sequence of D str, optional
        beside_parent : bool, default=False

        Returns
        -------
        array of shape (J, n), object
            Names or column numbers.
        """
        tree, who = self._tree(), f"{self._who}.top_features"
        n_features = self.n_features_in_
        n = check_integer(n, "n", who, low=1, high=n_features)
        known = getattr(self, "feature_names_in_", np.arange(n_features))
        names = np.asarray(known if feature_names is None else feature_names, dtype=object)
        if names.shape != (n_features,):
            raise InputError(
                f"`feature_names` of {who} must have one name per column, shape ({n_features},); got {names.shape}. "
                "Give those of the vectoriser that made X."
            )
        directions = self.node_means_
        if check_flag(beside_parent, "beside_parent", who):
            above = directions[tree.parents]
            directions = np.where(tree.parents[:, None] >= 0, directions - above, directions)
        return names[np.argsort(-directions, axis=1, kind="stable")[:, :n]]

    @reading
    def nearest_rows(self, X: Any, n: int = 5) -> npt.NDArray[np.int64]:
        """The rows of X with the largest cosines to the direction of each node, nearest first: (J, n).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        n : int, default=5
            How many for each node.

        Returns
        -------
        array of shape (J, n), int64
            Numbers of rows.
        """
        points = self._points(X, is_new=False)
        n = check_integer(n, "n", f"{self._who}.nearest_rows", low=1, high=points.n_rows)
        with self._passes(points) as passes:
            return passes.fold(AffineRule.cosines(self.node_means_), _Nearest(n))

    @reading
    def to_newick(self, names: Sequence[str] | None = None) -> str:
        """The tree as Newick text; a branch is as long as the angle between its two directions, in radians.

        `names` (J) are those of the nodes, by default their numbers. Tops hang from the direction mu_0 where C_0 is
        not 0, and have no length where it is.

        Parameters
        ----------
        names : sequence of J str, optional

        Returns
        -------
        str
            One line, ended by a semicolon.
        """
        tree, directions = self._tree(), self.node_means_
        if names is None:
            names = [str(node) for node in range(len(tree))]
        given: Any = names
        is_list = isinstance(given, Sequence) or np.ndim(given) == 1
        if not is_list or len(given) != len(tree):
            came = len(given) if is_list else type(given).__name__
            raise InputError(
                f"`names` of {self._who}.to_newick must be {len(tree)} strings, one for each node; got {came}. "
                "Name the nodes in the order of `tree_`."
            )
        above = np.where(tree.parents[:, None] >= 0, directions[tree.parents], self.mean_direction_)
        angles = sphere.angle(directions, above)
        is_known = (tree.parents >= 0) | (self.mean_concentration_ > 0.0)
        lengths = [float(angle) if known else None for angle, known in zip(angles, is_known, strict=True)]
        return newick(tree, [str(name) for name in names], lengths)

    @reading
    def to_json(
        self,
        *,
        n_features: int = 0,
        feature_names: ArrayLike | None = None,
        directions: bool = False,
        indent: int | None = None,
    ) -> str:
        """The tree as JSON text, node inside node: {"children": [{"node": 0, ..., "children": [...]}]}.

        Each node has its number, level, component (null for inner nodes), concentration, weight and count; on demand
        also its `n_features` top features and its direction.

        Parameters
        ----------
        n_features : int, default=0
            Top features of each node.
        feature_names : sequence of D str, optional
            As for `top_features`.
        directions : bool, default=False
            Write the direction of each node.
        indent : int, optional
            Spaces of each level; None writes one line.

        Returns
        -------
        str
            JSON.
        """
        nodes = self.tree_
        if indent is not None:
            check_integer(indent, "indent", f"{self._who}.to_json", low=0, high=100, hint="None writes one line.")
        extra: list[dict[str, Any]] = [{} for _ in nodes]
        if check_integer(n_features, "n_features", f"{self._who}.to_json", low=0):
            for entry, top in zip(extra, self.top_features(n_features, feature_names).tolist(), strict=True):
                entry["top_features"] = top
        if check_flag(directions, "directions", f"{self._who}.to_json"):
            for entry, node in zip(extra, nodes, strict=True):
                entry["direction"] = node.direction.tolist()
        return nested_json(nodes, extra, indent)

    # ------------------------------------------------------------------------------------------------------- inside

    def _tree(self) -> Tree:
        check_is_fitted(self)
        return Tree.of(self.parents_, self._who)

    def _of_nodes(self, of_leaves: Float64Array, of_inner: Float64Array) -> Float64Array:
        tree = self._tree()
        values = np.empty((len(tree), *of_leaves.shape[1:]))
        values[tree.leaves], values[tree.inner] = of_leaves, of_inner
        return values

    def _nodes_of_leaves(self, level: int) -> Nodes:
        """The node of each leaf at this depth (L,)."""
        tree = self._tree()
        is_integer = isinstance(level, int | np.integer) and not isinstance(level, bool)
        if not (is_integer and 0 <= level <= tree.height):
            raise ParameterError(
                f"`level` of {self._who} must be an int from 0 to {tree.height}, the depth of its tree, or None for "
                f"the leaves; got {level!r}."
            )
        return tree.at_level(int(level))

    def _rule(self) -> AffineRule:
        """The scores of rows, from what was published."""
        prior = self._leaf_prior()
        factors = replace(
            first_factors(self.resultants_, prior, self.concentrations_),
            natural_coefficients=self._saved_state.natural_coefficients,
            log_h=self._saved_state.expected_log_h,
        )
        weights = DirichletWeights(self.weight_concentration_, self.weight_concentration_ + self.counts_)
        statistics = DirectionalStatistics(self.counts_, self.resultants_)
        return v.score_rule(v.State(statistics, 0.0, weights, factors, prior))

    def _leaf_prior(self) -> MixturePrior:
        return MixturePrior(
            self._saved_state.prior_directions,
            self._saved_state.prior_concentrations,
            self.log_concentration_mean_,
            self.log_concentration_variance_,
        )

    def _predictive(self) -> PredictiveDensity:
        kept = self._saved_state
        return PredictiveDensity(
            self.weights_,
            self.resultants_,
            self._leaf_prior(),
            kept.grid_concentrations,
            kept.grid_weights,
            kept.grid_pulls,
        )

    def _warn_of_bounds(self, state: State) -> None:
        held = np.flatnonzero(state.leaves.factors.log_means > HIGHEST - 1.0)
        if held.size:
            warnings.warn(
                f"{self._who} holds the concentration of component {', '.join(map(str, held))} at its bound "
                f"{math.exp(HIGHEST):.3g}: the rows there are equal. Drop copies, take a smaller tree, or keep a "
                "narrow prior of concentrations with empirical_bayes=False.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _described(state: State, tree: Tree) -> dict[str, Any]:
    """The attributes that tell a state."""
    leaves, law = state.expanded_leaves, state.inner_law
    factors = leaves.factors
    of_inner = inner_means(state, tree)
    return {
        "parents_": np.array(tree.parents),
        "weights_": leaves.weights.mean(),
        "means_": _unit(factors.mean_directions, leaves.prior.mean_direction),
        "concentrations_": factors.concentrations,
        "concentration_deviations_": factors.concentration_deviations,
        "log_concentrations_": factors.log_means,
        "log_concentration_variances_": factors.log_variances,
        "posterior_concentrations_": factors.direction_concentrations,
        "inner_means_": _unit(of_inner, state.top.mean_direction),
        "inner_concentrations_": law.concentrations,
        "inner_concentration_deviations_": law.concentration_deviations,
        "inner_posterior_concentrations_": _concentrations_of(of_inner),
        "weight_concentration_": float(leaves.weights.concentration),
        "mean_direction_": state.top.mean_direction,
        "mean_concentration_": float(state.top.mean_concentration),
        "log_concentration_mean_": float(state.top.log_mean),
        "log_concentration_variance_": float(state.top.log_variance),
        "inner_log_concentration_mean_": float(state.inner.log_mean),
        "inner_log_concentration_variance_": float(state.inner.log_variance),
        "counts_": leaves.statistics.counts,
        "resultants_": factors.resultants,
        "_saved_state": SavedState(
            prior_directions=leaves.prior.mean_direction,
            prior_concentrations=np.asarray(leaves.prior.mean_concentration),
            expected_log_h=factors.log_h,
            natural_coefficients=factors.natural_coefficients,
            grid_concentrations=factors.nodes.concentrations,
            grid_weights=factors.nodes.weights,
            grid_pulls=factors.nodes.pulls,
        ),
    }


def _unit(means: Float64Array, otherwise: Float64Array) -> Float64Array:
    """Directions (n, D) of expected directions, and others where those are 0."""
    spare = np.broadcast_to(otherwise, means.shape)
    return DirectionalStatistics(np.zeros(len(means)), means).directions(otherwise=spare)


def _concentrations_of(means: Float64Array) -> Float64Array:
    """Of the vMF laws with these means (n, D)."""
    lengths = np.minimum(natural_lengths(means), 1.0 - _LEAST_GAP)
    return np.asarray(bessel.concentration_from_resultant(means.shape[1], lengths))


def _indicators(groups: npt.NDArray[np.intp]) -> Float64Array:
    """1 where a leaf (L) is in a group (M), else 0: (L, M)."""
    return np.eye(int(groups.max()) + 1)[groups]


@dataclass(frozen=True, eq=False)
class _BestGroup:
    """The group of leaves with the largest sum of responsibilities for a row."""

    membership: Float64Array  # (L, M)

    def of(self, scores: Float64Array, here: Here) -> npt.NDArray[np.intp]:
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.argmax(shares @ self.membership, axis=1)


@dataclass(frozen=True)
class _Nearest:
    """The rows with the largest scores, the largest first: (J, n)."""

    n: int
    is_exact: ClassVar[bool] = False

    def part(self, scores: FloatArray, here: Here) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        best = np.argsort(-scores, axis=0, kind="stable")[: self.n]
        return np.take_along_axis(scores, best, axis=0), here.first_row + best

    def join(self, parts: Sequence[tuple[FloatArray, npt.NDArray[np.int64]]]) -> npt.NDArray[np.int64]:
        scores, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
        best = np.argsort(-scores, axis=0, kind="stable")[: self.n]
        return np.take_along_axis(rows, best, axis=0).T
