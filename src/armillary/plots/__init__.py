"""Pictures: axes in, axes out. Needs matplotlib, the extra `armillary[plots]`."""

from armillary.plots.sphere import plot_sphere, plot_sphere_views

__all__ = ["plot_sphere", "plot_sphere_views"]
