"""Names for clusters: words that tell them apart, nearest known items, or what a user's own function says."""

from armillary.naming.cluster_names import ClusterNames, name_clusters

__all__ = ["ClusterNames", "name_clusters"]
