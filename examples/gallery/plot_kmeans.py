"""
What does spherical k-means find?
=================================

K directions that the rows lie closest to, by cosine. Both sides of the sphere are drawn.
"""

from armillary import SphericalKMeans
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_sphere_views

X, _, _ = make_vmf_mixture(3_000, 3, 8, concentration=60.0, min_angle=0.7, random_state=0)
model = SphericalKMeans(8, n_init=5, random_state=0).fit(X)
figure = plot_sphere_views(X, model.labels_, centers=model.cluster_centers_)
