"""Regions of a label image: pixels of one label that hang together, and small ones given to their surroundings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.validation import check_integer

LabelImage = npt.NDArray[np.int32]

_MOST_LABEL = np.iinfo(np.int32).max
_FEW_LABELS = 1 << 16


def clean_regions(labels: Any, min_region: int) -> LabelImage:
    """Give regions of fewer than `min_region` pixels to their surroundings.

    A region is a set of pixels of one label that hang together by their edges. A small one takes the label with which
    it shares the longest border (of equal ones the smaller label); borders with other small regions count once those
    have been taken over themselves. A small region among missing pixels becomes missing. Missing pixels stay missing.

    Parameters
    ----------
    labels : (H, W) array of int
        Labels from 0; -1 is missing.
    min_region : int
        Pixels; 0 and 1 change nothing.

    Returns
    -------
    cleaned : (H, W) array, int32

    Examples
    --------
    >>> clean_regions([[0, 0, 0], [0, 3, 0], [0, 0, -1]], min_region=2)
    array([[ 0,  0,  0],
           [ 0,  0,  0],
           [ 0,  0, -1]], dtype=int32)
    """
    who = "clean_regions"
    image = check_label_image(labels, who)
    least = check_integer(min_region, "min_region", who, low=0, hint="It is a number of pixels; 0 cleans nothing.")
    if least <= 1 or image.size == 0:
        return image.copy()
    return cleaned_and_counted(image, least)[0]


def cleaned_and_counted(image: LabelImage, least: int) -> tuple[LabelImage, npt.NDArray[np.int64]]:
    """`clean_regions`, and how many pixels then have each label from 0 on."""
    runs, cleaned = _Runs.of(image), image.copy()
    is_large, names = runs.sizes >= least, runs.names
    is_large[0] = True  # the missing pixels
    if not is_large.all():
        names = runs.names_by_border(~is_large)
        runs.rename(names, cleaned)
    is_there = names >= 0
    return cleaned, np.bincount(names[is_there], runs.sizes[is_there]).astype(np.int64)


def check_label_image(labels: Any, who: str) -> LabelImage:
    """Labels (H, W) as int32, -1 for missing."""
    image = np.asarray(labels)
    if image.ndim != 2 or image.dtype.kind not in "iu":
        raise InputError(
            f"`labels` of {who} must be an image of integers, shape (H, W); got {image.dtype} of shape {image.shape}. "
            "Give what `segment` returns."
        )
    if image.size and image.min() < -1:
        raise InputError(
            f"`labels` of {who} must be -1 (missing) or more; got {image.min()}. Give missing pixels the label -1."
        )
    if image.size and image.max() > _MOST_LABEL:
        raise InputError(f"`labels` of {who} must be below 2^31; got {image.max()}. Number them anew first.")
    return image.astype(np.int32, copy=False)


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of one label in the lines of an image, and the regions that they make."""

    firsts: npt.NDArray[np.int32]  # (n,) columns
    lasts: npt.NDArray[np.int32]  # (n,) not in the run
    starts: npt.NDArray[np.int64]  # (H + 1,) of each line among the runs
    numbers: npt.NDArray[np.int32]  # (n,) the region of each, 0 for missing pixels
    names: LabelImage  # (R,) the label of each region
    sizes: npt.NDArray[np.int64]  # (R,) and its pixels

    @classmethod
    def of(cls, image: LabelImage) -> _Runs:
        from armillary.kernels.images import regions as kernels  # numba loads when first needed

        whole, room = np.ascontiguousarray(image), 1 << 14
        while True:
            firsts, lasts, labels = (np.empty(room, dtype=np.int32) for _ in range(3))
            starts = np.empty(len(whole) + 1, dtype=np.int64)
            n_runs = kernels.find_runs(whole, firsts, lasts, labels, starts)
            if n_runs <= room:
                break
            room = n_runs
        firsts, lasts, labels, numbers = firsts[:n_runs], lasts[:n_runs], labels[:n_runs], np.empty(n_runs, np.int32)
        names, sizes = kernels.join_runs(firsts, lasts, labels, starts, numbers)
        return cls(firsts, lasts, starts, numbers, names, sizes)

    def names_by_border(self, is_small: npt.NDArray[np.bool_]) -> LabelImage:
        """The labels (R,) of the regions once small ones have gone to their surroundings."""
        from armillary.kernels.images import regions as kernels

        found = np.empty((1 << 13, 3), dtype=np.int64)
        n_found = kernels.small_borders(self.firsts, self.lasts, self.starts, self.numbers, is_small, found)
        if n_found > len(found):
            found = np.empty((n_found, 3), dtype=np.int64)
            kernels.small_borders(self.firsts, self.lasts, self.starts, self.numbers, is_small, found)
        labels, codes = self._numbered()
        is_open = is_small.copy()
        kernels.take_by_border(found, n_found, codes, is_open, np.empty(len(codes), dtype=np.int64))
        names = labels[codes]
        names[is_open] = -1
        return names

    def _numbered(self) -> tuple[LabelImage, npt.NDArray[np.int64]]:
        """Labels in their order, and the place of that of each region among them."""
        if (largest := int(self.names.max())) < _FEW_LABELS:  # a sort takes as long as all that follows
            return np.arange(-1, largest + 1, dtype=np.int32), self.names.astype(np.int64) + 1
        labels, codes = np.unique(self.names, return_inverse=True)
        return labels, codes.astype(np.int64)

    def rename(self, names: LabelImage, image: LabelImage) -> None:
        """Give regions other labels, in the image."""
        from armillary.kernels.images import regions as kernels

        kernels.rename_runs(self.firsts, self.lasts, self.starts, self.numbers, self.names, names, image)
