"""Regions of a label image: pixels of one label that hang together, and small ones given to their surroundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from armillary._typing import IntArray
from armillary.exceptions import InputError
from armillary.validation import check_integer

LabelImage = npt.NDArray[np.int32]


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
    regions, names = _regions(image)
    is_large = np.bincount(regions.ravel(), minlength=len(names)) >= least
    return _names_by_border(names, is_large, *_borders(regions))[regions]


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
    return image.astype(np.int32, copy=False)


def _regions(image: LabelImage) -> tuple[npt.NDArray[np.int32], LabelImage]:
    """The region of each pixel (H, W), 0 for missing ones, and the label of each region (R,).

    Runs of one label in a line are the nodes of a graph, and runs that touch in the next line its edges: far fewer
    than pixels.
    """
    is_start = np.ones(image.shape, dtype=np.bool_)
    np.not_equal(image[:, 1:], image[:, :-1], out=is_start[:, 1:])
    runs = np.cumsum(is_start, dtype=np.int32).reshape(image.shape) - 1
    labels = image[is_start]
    # two runs of one label that touch do so first where one of them starts
    touches = (image[1:] == image[:-1]) & (is_start[1:] | is_start[:-1])
    above, below = runs[:-1][touches], runs[1:][touches]
    graph = coo_array((np.ones(len(above), dtype=np.bool_), (above, below)), shape=(len(labels), len(labels)))
    n_parts, parts = connected_components(graph, directed=False)
    names = np.empty(n_parts, dtype=np.int32)
    names[parts] = labels
    is_there = names >= 0
    numbers = np.where(is_there, np.cumsum(is_there), 0).astype(np.int32)
    return numbers[parts][runs], np.concatenate([np.array([-1], dtype=np.int32), names[is_there]])


def _borders(regions: npt.NDArray[np.int32]) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs of regions that touch, each pair in both orders, and how many pixel edges they share."""
    pairs = []
    for one, other in ((regions[:, :-1], regions[:, 1:]), (regions[:-1], regions[1:])):
        touches = (one != other) & (one > 0) & (other > 0)
        pairs.append(np.stack([one[touches], other[touches]]).astype(np.int64))
    ones, others = np.concatenate([*pairs, *(pair[::-1] for pair in pairs)], axis=1)
    n_regions = int(regions.max(initial=0)) + 1
    keys, lengths = np.unique(ones * n_regions + others, return_counts=True)
    return keys // n_regions, keys % n_regions, lengths


def _names_by_border(
    names: LabelImage, is_large: npt.NDArray[np.bool_], ones: IntArray, others: IntArray, lengths: IntArray
) -> LabelImage:
    """The labels (R,) of the regions once small ones have gone to their surroundings."""
    taken = names.copy()
    is_open = ~is_large
    is_open[0] = False  # the missing pixels
    n_labels = int(names.max(initial=0)) + 1
    while (votes := np.flatnonzero(is_open[ones] & ~is_open[others])).size:
        keys, where = np.unique(ones[votes] * n_labels + taken[others[votes]], return_inverse=True)
        totals = np.bincount(where, lengths[votes])
        regions, labels = keys // n_labels, keys % n_labels
        order = np.lexsort((labels, -totals, regions))
        first = order[np.unique(regions[order], return_index=True)[1]]
        taken[regions[first]] = labels[first]
        is_open[regions[first]] = False
    taken[is_open] = -1
    return taken
