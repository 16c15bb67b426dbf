"""Figures for sphinx-gallery that belong to no window: those that `armillary.plots` makes when it is given no axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def _figures(values: Iterable[Any]) -> Iterator[Figure]:
    for value in values:
        if isinstance(value, Figure):
            yield value
        elif isinstance(value, Axes):
            yield value.figure
        elif isinstance(value, list):
            yield from _figures(value)


def scrape(block: Any, names: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save what the names of an example hold and pyplot does not know, once each."""
    known = {id(plt.figure(number)) for number in plt.get_fignums()}
    paths = []
    for figure in dict.fromkeys(_figures(list(names["example_globals"].values()))):
        if id(figure) in known or getattr(figure, "_is_in_the_gallery", False):
            continue
        figure._is_in_the_gallery = True
        paths.append(next(names["image_path_iterator"]))
        figure.savefig(paths[-1], dpi=100)
    return figure_rst(paths, settings["src_dir"])


def _get_sg_image_scraper() -> Callable[..., str]:
    return scrape
