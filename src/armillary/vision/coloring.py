"""Depth, normals and labels as colours: arrays of pixels in, red, green and blue from 0 to 255 out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.palette import COLOR_TABLE, color_numbers
from armillary.validation import check_number, check_numbers
from armillary.vision.regions import check_label_image

Colors = npt.NDArray[np.uint8]  # (H, W, 3)

_LIGHTEST, _DARKEST = 245.0, 40.0  # of depth: black is for what is missing
_NEAR_SHARE, _FAR_SHARE = 0.02, 0.98


def color_labels(labels: Any, table: Any = None) -> Colors:
    """Labels (H, W) as colours: an id has the same colour in every frame, missing pixels (-1) are black.

    `table` (n, 3), uint8, has the colour of each id, e.g. that of `DirectionColors`; by default ids take the twelve
    colours of the palette in turn.

    Parameters
    ----------
    labels : array-like of int of shape (H, W)
        Ids; -1 is missing.
    table : array-like of shape (n, 3), optional
        Colours of the ids.

    Returns
    -------
    array of shape (H, W, 3), uint8
        Red, green, blue.

    Examples
    --------
    >>> from armillary.vision import color_labels
    >>> color_labels([[0, -1]], [[200, 0, 0]]).tolist()
    [[[200, 0, 0], [0, 0, 0]]]
    """
    image = check_label_image(labels, "color_labels")
    if table is None:
        return COLOR_TABLE[color_numbers(image)]
    colors = _checked_table(table)
    if image.size and image.max() >= len(colors):
        raise InputError(
            f"`table` of color_labels must have a colour for every label; it has {len(colors)}, and there is a label "
            f"{image.max()}. Add the frame to the DirectionColors first."
        )
    return np.concatenate([colors, np.zeros((1, 3), np.uint8)])[image]  # -1 is the last one


def _checked_table(table: Any) -> Colors:
    """Colours (n, 3) of ids."""
    colors = np.asarray(table) if isinstance(table, np.ndarray) else check_numbers(table, "table", "color_labels")
    if not colors.size:
        return np.zeros((0, 3), np.uint8)
    is_right = colors.ndim == 2 and colors.shape[1] == 3 and colors.dtype.kind in "uif"
    if not is_right or not (np.all(colors >= 0) and np.all(colors <= 255)):
        raise InputError(
            f"`table` of color_labels must have red, green and blue from 0 to 255 for each id, shape (n, 3); got "
            f"{colors.dtype} of shape {colors.shape}{f' from {colors.min()} to {colors.max()}' * is_right}. Give "
            "`table` of a DirectionColors."
        )
    return colors.astype(np.uint8, copy=False)


class DirectionColors:
    """Colours of ids by their directions: walls of one direction look alike, and no two ids share a colour.

    The hue is the azimuth of a direction, the lightness its height: what faces up, as floors, is light, what faces down
    is dark. A colour nearer than a clear step to that of an id in view, or of one of the last two dozen, moves to the
    nearest that is free. Colours are given once and stay. Directions are best given in one frame of coordinates, that
    of the first camera or of the world.

    Attributes
    ----------
    table : array of shape (n, 3), uint8
        The colour of each id so far.

    Examples
    --------
    >>> from armillary.vision import DirectionColors
    >>> colors = DirectionColors()
    >>> colors.add([0, 2], [[0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
    >>> colors.table.shape
    (3, 3)
    """

    def __init__(self) -> None:
        self._colors: dict[int, npt.NDArray[np.uint8]] = {}

    @property
    def table(self) -> Colors:
        """(n, 3); black for ids that were not given yet."""
        found = np.zeros((1 + max(self._colors, default=-1), 3), dtype=np.uint8)
        for number, color in self._colors.items():
            found[number] = color
        return found

    def add(self, ids: Any, directions: Any) -> None:
        """Give ids (K,) that are new a colour by their directions (K, 3), with y down.

        Parameters
        ----------
        ids : array of int of shape (K,)
            All that are in view: new ones are kept apart from the others, too.
        directions : array of shape (K, 3)
            Unit.
        """
        numbers, vectors = _checked_ids(ids), check_numbers(directions, "directions", "DirectionColors.add")
        if vectors.shape != (len(numbers), 3) and vectors.size + len(numbers):
            raise InputError(
                f"`directions` of DirectionColors.add must have one line of three numbers for each of the "
                f"{len(numbers)} ids; got shape {vectors.shape}. Give `ids` and `directions` of a frame."
            )
        for number, direction in zip(numbers, vectors.reshape(-1, 3), strict=True):
            if number not in self._colors:
                self._colors[number] = self._free(direction, numbers)

    def _free(self, direction: npt.NDArray[np.float64], in_view: list[int]) -> npt.NDArray[np.uint8]:
        # the eye tells a few dozen colours: no more are kept apart, and of all others a colour differs somehow
        wanted = _direction_lch(direction)
        candidates = _oklch_bytes(wanted + _SHIFTS)
        from_seen = self._gaps(candidates, [number for number in in_view if number in self._colors])
        from_last = self._gaps(candidates, list(self._colors)[-_KEPT_APART:])
        taken = {_code(color) for color in self._colors.values()}
        is_free = np.array([_code(candidate) not in taken for candidate in candidates])
        is_clear = is_free & (from_seen >= _CLEAR_STEP)
        if len(best := np.flatnonzero(is_clear & (from_last >= _CLEAR_STEP))):
            code = _code(candidates[best[0]])
        elif is_clear.any():
            code = _code(candidates[np.where(is_clear, from_last, -1.0).argmax()])
        else:
            code = _code(candidates[from_seen.argmax()])
        while code in taken or code == 0:  # black is what is missing
            code = (code + 1) % (1 << 24)
        return np.array([code >> 16, code >> 8 & 255, code & 255], dtype=np.uint8)

    def _gaps(self, candidates: npt.NDArray[np.uint8], numbers: list[int]) -> npt.NDArray[np.float64]:
        """How far each candidate (n, 3) is from the nearest colour of these ids."""
        known = _oklab(np.array([self._colors[number] for number in numbers]).reshape(-1, 3))
        gaps = np.linalg.norm(_oklab(candidates)[:, None] - known[None], axis=2)
        return np.asarray(gaps.min(axis=1, initial=np.inf))


def _checked_ids(ids: Any) -> list[int]:
    numbers = np.asarray(list(ids) if isinstance(ids, range | tuple) else ids)
    is_right = numbers.ndim == 1 and (numbers.dtype.kind in "iu" or not numbers.size)
    if not is_right or numbers.min(initial=0) < 0:
        raise InputError(
            f"`ids` of DirectionColors.add must be whole numbers from 0, shape (K,); got {numbers.dtype} of shape "
            f"{numbers.shape}. Give `ids` of a frame."
        )
    return [int(number) for number in numbers]


def _code(color: npt.NDArray[np.uint8]) -> int:
    red, green, blue = color.tolist()
    return int(red << 16 | green << 8 | blue)


# in OKLab: a step that is seen at once, and how many colours are held against a new one
_CLEAR_STEP, _KEPT_APART = 0.09, 24


def _shifts() -> npt.NDArray[np.float64]:
    """Changes of lightness, chroma and hue, the small ones first."""
    grid = [
        (lightness, chroma, hue)
        for lightness in (0.0, 0.12, -0.12, 0.22, -0.22)
        for chroma in (0.0, -0.05, 0.04)
        for hue in np.radians([0.0, 20.0, -20.0, 40.0, -40.0, 70.0, -70.0, 110.0, -110.0, 160.0])
    ]
    return np.array(sorted(grid, key=lambda one: abs(one[0]) + abs(one[1]) + 0.12 * abs(one[2])))


_SHIFTS = _shifts()


def _direction_lch(direction: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Lightness, chroma and hue of a direction with y down."""
    x, y, z = direction / max(float(np.linalg.norm(direction)), 1e-12)
    return np.array([0.62 - 0.2 * y, 0.13 * math.sqrt(max(0.25, 1.0 - y * y)), math.atan2(z, x) + 0.7])


def _oklch_bytes(lch: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Colours (n, 3) of lightness, chroma and hue, those outside of a screen's reach clipped (Ottosson 2020)."""
    lightness = np.clip(lch[:, 0], 0.25, 0.92)
    a, b = lch[:, 1] * np.cos(lch[:, 2]), lch[:, 1] * np.sin(lch[:, 2])
    cones = np.stack([lightness, a, b], axis=1) @ _LAB_TO_CONES.T
    linear = np.clip((cones**3) @ _CONES_TO_RGB.T, 0.0, 1.0)
    bent = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1.0 / 2.4) - 0.055)
    return np.rint(255.0 * bent).astype(np.uint8)


def _oklab(colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """OKLab (n, 3) of colours (n, 3) from 0 to 255."""
    bent = colors.astype(np.float64) / 255.0
    linear = np.where(bent <= 0.04045, bent / 12.92, ((bent + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.cbrt(linear @ np.linalg.inv(_CONES_TO_RGB).T) @ np.linalg.inv(_LAB_TO_CONES).T)


_LAB_TO_CONES = np.array(
    [[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.2914855480]]
)
_CONES_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def overlay(colors: Any, labels: Any, table: Any = None, *, opacity: float = 0.5) -> Colors:
    """Labels (H, W) in colours over an image (H, W, 3), uint8, of the same view; missing pixels show it alone.

    Parameters
    ----------
    colors : array-like of shape (H, W, 3), uint8
        The image.
    labels : array-like of int of shape (H, W)
        Ids; -1 is missing.
    table : array-like of shape (n, 3), optional
        Colours of the ids.
    opacity : float, default=0.5
        Of the labels, from 0 to 1.

    Returns
    -------
    array of shape (H, W, 3), uint8
        Red, green, blue.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.vision import overlay
    >>> overlay(np.full((1, 2, 3), 100, np.uint8), [[0, -1]], [[200, 0, 0]]).tolist()
    [[[150, 50, 50], [100, 100, 100]]]
    """
    picture, image = np.asarray(colors), check_label_image(labels, "overlay")
    if picture.dtype != np.uint8 or picture.shape != (*image.shape, 3):
        raise InputError(
            f"`colors` of overlay must be uint8 of shape {(*image.shape, 3)}, as the labels; got {picture.dtype} of "
            f"shape {picture.shape}. Register colour to depth first."
        )
    share = check_number(opacity, "opacity", "overlay", low=0.0, high=1.0) * (image >= 0)[..., None]
    return np.asarray(np.rint((1.0 - share) * picture + share * color_labels(image, table)).astype(np.uint8))


def color_normals(vectors: Any) -> Colors:
    """Unit normals (H, W, 3) as colours: x, y and z from -1 to 1 as red, green and blue; missing ones (0) are black.

    Parameters
    ----------
    vectors : array-like of shape (H, W, 3)
        Unit normals, as `Normals.vectors` has them.

    Returns
    -------
    array of shape (H, W, 3), uint8
        Red, green, blue.

    Examples
    --------
    >>> from armillary.vision import color_normals
    >>> color_normals([[[0.0, 0.0, 0.0]]]).tolist()
    [[[0, 0, 0]]]
    """
    normals = np.asarray(vectors)
    if normals.ndim != 3 or normals.shape[2] != 3 or normals.dtype.kind != "f":
        raise InputError(
            f"`vectors` of color_normals must be floats of shape (H, W, 3); got {normals.dtype} of shape "
            f"{normals.shape}. Give `vectors` of what `estimate_normals` returns."
        )
    is_there = np.isfinite(normals).all(axis=2) & normals.any(axis=2)
    colors = np.zeros(normals.shape, dtype=np.uint8)
    colors[is_there] = np.clip(np.rint(127.5 * (1.0 + normals[is_there])), 0, 255)
    return colors


def color_depth(depth: Any) -> Colors:
    """Depth (H, W) as greys, near is light; missing pixels (0, NaN, inf, negative) are black.

    The scale is that of the image: its nearest and farthest fiftieth have one grey each.

    Parameters
    ----------
    depth : array-like of shape (H, W)
        In any unit.

    Returns
    -------
    array of shape (H, W, 3), uint8
        Red, green, blue.

    Examples
    --------
    >>> from armillary.vision import color_depth
    >>> color_depth([[1.0, 2.0], [0.0, 3.0]]).shape
    (2, 2, 3)
    """
    image = np.asarray(depth)
    if image.ndim != 2 or image.dtype.kind not in "uif":
        raise InputError(
            f"`depth` of color_depth must be numbers of shape (H, W); got {image.dtype} of shape {image.shape}. "
            "Give one depth image."
        )
    values = image.astype(np.float32)
    is_there = np.isfinite(values) & (values > 0.0)
    greys = np.zeros(values.shape, dtype=np.uint8)
    if is_there.any():
        near, far = np.quantile(values[is_there], (_NEAR_SHARE, _FAR_SHARE))
        shares = (values[is_there] - near) / max(far - near, 1e-6)
        greys[is_there] = np.rint(_LIGHTEST + (_DARKEST - _LIGHTEST) * np.clip(shares, 0.0, 1.0))
    return np.repeat(greys[:, :, None], 3, axis=2)
