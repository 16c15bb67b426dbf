"""Pictures: axes in, axes out. Needs matplotlib, the extra `armillary[plots]`."""

from armillary.plots.angles import plot_angle_table
from armillary.plots.sphere import plot_sphere, plot_sphere_views
from armillary.plots.streams import plot_id_shares

__all__ = ["plot_angle_table", "plot_id_shares", "plot_sphere", "plot_sphere_views"]
