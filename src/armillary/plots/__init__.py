"""Pictures: axes in, axes out. Needs matplotlib, the extra `armillary[plots]`."""

from armillary.plots.angles import plot_angle_table
from armillary.plots.links import plot_links_table
from armillary.plots.sphere import plot_sphere, plot_sphere_views
from armillary.plots.streams import plot_id_shares
from armillary.plots.trajectories import plot_top_features, plot_trajectories
from armillary.plots.tree import plot_tree

__all__ = [
    "plot_angle_table",
    "plot_id_shares",
    "plot_links_table",
    "plot_sphere",
    "plot_sphere_views",
    "plot_top_features",
    "plot_trajectories",
    "plot_tree",
]
