"""What the plain pictures share: axes to draw on, their ink, and files to put a finished picture in."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from armillary.exceptions import ParameterError
from armillary.plots.sphere import _need_matplotlib, _new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#414a59"
PALE_INK = "#8a93a3"


def plain_axes(ax: Axes | None, who: str, width: float, height: float, right: float = 0.3, top: float = 0.45) -> Axes:
    """The axes given, if they are plain; by default those of a new figure, in inches, with room for words."""
    _need_matplotlib(who)
    if ax is None:
        left, bottom = 0.75, 0.6
        box = (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
        return _new_figure(width, height).add_axes(box)
    if getattr(ax, "name", None) != "rectilinear":
        raise ParameterError(
            f"`ax` of {who} must be plain 2-D axes; got {type(ax).__name__}. "
            "Make them with figure.add_subplot(), without `projection`."
        )
    return ax


def quiet(ax: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
    """Words and two spines in the one ink."""
    ax.set_title(title, loc="left", color=INK, fontsize=11)
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    ax.tick_params(which="both", colors=INK, length=3.0)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)


def png_of(figure: Figure, *, pixels_per_inch: float = 150.0) -> bytes:
    """The figure as a PNG with a transparent background."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=pixels_per_inch, transparent=True, metadata={"Software": None})
    return stream.getvalue()


def svg_of(ax: Axes, name: str) -> str:
    """The figure of these axes as an `<svg>` for a web page: words stay words, and ink and paper follow the page.

    `name` keeps the element's internal names apart from those of other figures on the page. The same picture and name
    give the same text.
    """
    import matplotlib

    figure: Any = ax.figure
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    # currentColor is the page's text colour, so that words and lines can be read on light and on dark
    return text[text.index("<svg") :].replace(INK, "currentColor").strip()
