"""The rows as the page's script reads them: small integers in base64, words compressed.

Places are 16-bit fixed-point, 0.002 degrees; angles are bytes of the largest angle there is. With 100,000 rows that is
1.6 MB. Words share a budget: the more rows, the shorter each is cut.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, IntArray
from armillary.report.atlas import Atlas
from armillary.report.clusters import ClusterFacts
from armillary.report.content import RowNames, shortened
from armillary.report.findings import Findings
from armillary.report.pictures import view_of

_UNIT = 32767
# Letters of all words together, and of one word: at least and at most.
_LETTERS, _FEWEST_LETTERS, _MOST_LETTERS = 8_000_000, 24, 240


def payload(
    atlas: Atlas,
    facts: ClusterFacts,
    colors: Float64Array,
    drawn: IntArray,
    rows: IntArray,
    names: RowNames,
    is_small: npt.NDArray[np.bool_],
) -> dict[str, Any]:
    """What the script expects; `is_small` tells rows of clusters that are not shown from noise."""
    n_clusters = len(facts.names)
    codes = facts.codes[drawn].astype(np.int64)
    # two colours more than clusters: noise, and clusters too small to show
    codes = np.where(codes >= 0, codes, np.where(is_small[drawn], n_clusters + 1, n_clusters))
    numbers = rows[drawn]
    angles, angle_scale = _bytes_of(facts.angles[drawn])
    next_angles, next_scale = _bytes_of(facts.next_angles[drawn])
    return {
        "kind": atlas.kind,
        "view": view_of(atlas),
        "n": len(drawn),
        "places": _base64(np.round(atlas.places * _UNIT).astype("<i2")),
        "codes": _base64(codes.astype("<u2")),
        "angles": angles,
        "angleScale": angle_scale,
        "nextCodes": _base64(np.where(facts.next_codes[drawn] >= 0, facts.next_codes[drawn], 65535).astype("<u2")),
        "nextAngles": next_angles,
        "nextScale": next_scale,
        # row numbers are left out where they are 0, 1, 2, ...
        "rows": None if len(numbers) == 0 or numbers[-1] == len(numbers) - 1 else _base64(numbers.astype("<u4")),
        "names": facts.names.tolist(),
        "sizes": facts.sizes.tolist(),
        "colors": np.round(colors * 255).astype(int).tolist(),
        "centers": np.round(atlas.centers, 4).tolist(),
        "ids": None if names.ids is None else _words([names.id_of(int(row)) for row in numbers]),
        "texts": None if names.texts is None else _words([names.text_of(int(row)) for row in numbers]),
    }


def more_payload(found: Findings) -> dict[str, Any]:
    """What not every page has: words of clusters, membership, a flat map, pictures."""
    membership, flat = found.membership, found.flat
    return {
        "words": found.words,
        "nNoise": found.facts.n_noise,
        "membership": None if membership is None else _shares(membership[found.drawn]),
        "flat": None if flat is None else _base64(np.round(flat.places * _UNIT).astype("<i2")),
        "flatName": None if flat is None else flat.name,
        "thumbs": {str(place): address for place, address in found.thumbnails.items()},
    }


def _shares(values: Float64Array) -> str:
    """Numbers in [0, 1] as bytes 0..254, 255 where there is none."""
    return _base64(np.where(np.isnan(values), 255, np.round(254.0 * np.nan_to_num(values))).astype(np.uint8))


def matrix_payload(facts: ClusterFacts, order: IntArray) -> dict[str, Any]:
    """The angles of the matrix in its order (K', K')."""
    angles = np.arccos(np.clip(facts.centers[order] @ facts.centers[order].T, -1.0, 1.0))
    np.fill_diagonal(angles, 0.0)
    values, step = _bytes_of(angles)
    return {"order": order.tolist(), "angles": values, "step": step}


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no sign that could end it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _bytes_of(angles: Float64Array) -> tuple[str, float]:
    """Angles as bytes 0..254 of the largest, 255 where there is none, and the degrees of one step."""
    is_number = np.isfinite(angles)
    largest = float(np.degrees(angles[is_number].max())) if is_number.any() else 0.0
    step = max(largest, 1e-6) / 254.0
    filled = np.where(is_number, np.degrees(np.where(is_number, angles, 0.0)) / step, 255.0)
    return _base64(np.round(filled).astype(np.uint8)), step


def _base64(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def _words(words: list[str]) -> str:
    """A JSON list of words, cut to their budget, deflated, in base64."""
    n_letters = int(np.clip(_LETTERS // max(1, len(words)), _FEWEST_LETTERS, _MOST_LETTERS))
    text = json.dumps([shortened(word, n_letters) for word in words], ensure_ascii=False)
    # a lone surrogate, which files can hold and UTF-8 cannot, becomes a question mark
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode("ascii")
