"""Figures that notebooks show, and so do their axes: plots return axes, and no global figure state is touched."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

_PIXELS_PER_INCH = 100.0


class Picture(Figure):
    """A figure that is shown where it, or axes of it, are the last line of a cell."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=_PIXELS_PER_INCH)
        return stream.getvalue()

    def add_axes(self, *args: Any, **kwargs: Any) -> Any:
        """Axes, which are shown as the figure is."""
        return self._shown(super().add_axes(*args, **kwargs))

    def add_subplot(self, *args: Any, **kwargs: Any) -> Any:
        """The same."""
        return self._shown(super().add_subplot(*args, **kwargs))

    def _shown(self, ax: Any) -> Any:
        ax._repr_png_ = self._repr_png_
        return ax
