"""What the clusterers share: centres, the clusters of new rows, cosines to the centres.

One meaning each in `SphericalKMeans`, `DPvMFMeans`, `DDPvMFMeans` and `Links`, whose signatures are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from armillary._typing import Float64Array, FloatArray, IntArray
from armillary.engines.contract import Points
from armillary.exceptions import InputError
from armillary.models.estimator import UnitVectorEstimator
from armillary.models.turns import learning_whole, reading
from armillary.rules import AffineRule
from armillary.validation import check_flag


class Clusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, UnitVectorEstimator, ABC):
    """Base of the clusterers: `cluster_centers_` (K, D) are unit directions. Subclasses have `_answers`."""

    cluster_centers_: Any  # (K, D) float64: an attribute, or a property where centres are made when asked for

    fit_predict = learning_whole(ClusterMixin.fit_predict)  # so that the labels are those of this fit
    fit_transform = learning_whole(TransformerMixin.fit_transform)

    @abstractmethod
    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> IntArray:
        """The cluster of each row of X (n,); with `rejects`, -1 where a fit would open a new one.

        For `out` see `labels_out.py`.
        """

    @reading
    def predict(self, X: Any, *, reject: bool = False, out: Any = None) -> IntArray:
        """The cluster of each row of X (n,), the nearest by cosine. Learns nothing.

        With `reject`, -1 for rows that none of the clusters takes: those for which a fit would open a new cluster.
        `SphericalKMeans` opens none, so it rejects none.

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        reject : bool, default=False
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,)
            Numbers of clusters; where `out` was given, `out`.
        """
        return self._answers(X, rejects=check_flag(reject, "reject", f"{self._who}.predict"), out=out)

    @reading
    def transform(self, X: Any) -> FloatArray:
        """Cosine similarity of each row of X to each of `cluster_centers_` (n, K), in the dtype of the rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n, K)
            Cosines.
        """
        check_is_fitted(self)
        return self._cosines(X, self.cluster_centers_)

    def _cosines(self, X: Any, centers: Float64Array) -> FloatArray:
        points = self._points_to_place(X)
        with self._passes(points) as passes:
            return points.spread(passes.values(AffineRule.cosines(centers), "scores"))

    def _points_to_place(self, X: Any) -> Points:
        """The gate of `transform`."""
        return self._points(X, is_new=False)

    def _refuse_to_score(self, why: str) -> NoReturn:
        raise InputError(f"`score` of {self._who} must have clusters to measure from; {why}")

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
