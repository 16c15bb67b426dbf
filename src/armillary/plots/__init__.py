"""Pictures: axes in, axes out. Needs matplotlib, the extra `armillary[plots]`."""

from armillary.plots.angles import plot_angle_table
from armillary.plots.clusters import plot_cluster_sizes, plot_silhouettes
from armillary.plots.comparison import plot_agreement, plot_comparison, plot_scores, plot_suggestion
from armillary.plots.links import plot_links_table
from armillary.plots.segmentation import plot_segmentation
from armillary.plots.similarity import plot_similarity
from armillary.plots.sphere import plot_sphere, plot_sphere_views
from armillary.plots.streams import plot_id_shares
from armillary.plots.sweeps import plot_sweep
from armillary.plots.tangent import plot_condition_numbers, plot_tangent_space
from armillary.plots.traces import plot_traces
from armillary.plots.trajectories import plot_top_features, plot_trajectories
from armillary.plots.tree import plot_tree

__all__ = [
    "plot_agreement",
    "plot_angle_table",
    "plot_cluster_sizes",
    "plot_comparison",
    "plot_condition_numbers",
    "plot_id_shares",
    "plot_links_table",
    "plot_scores",
    "plot_segmentation",
    "plot_silhouettes",
    "plot_similarity",
    "plot_sphere",
    "plot_sphere_views",
    "plot_suggestion",
    "plot_sweep",
    "plot_tangent_space",
    "plot_top_features",
    "plot_traces",
    "plot_trajectories",
    "plot_tree",
]
