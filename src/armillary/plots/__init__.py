"""Pictures: axes in, axes out. Needs matplotlib, the extra `armillary[plots]`."""

from armillary.plots.angles import plot_angle_table
from armillary.plots.sphere import plot_sphere, plot_sphere_views

__all__ = ["plot_angle_table", "plot_sphere", "plot_sphere_views"]
