"""
What do surface normals look like?
==================================

Every pixel of a depth image has a normal. On the sphere, walls are clusters.
"""

import matplotlib.pyplot as plt

from armillary import DPvMFMeans
from armillary.plots import plot_sphere
from armillary.vision import color_normals, estimate_normals, make_room_walk

walk = make_room_walk(1, width=240, height=180, random_state=0)
normals = estimate_normals(walk.depths[0], walk.camera)
rows = normals.vectors[normals.is_valid]
model = DPvMFMeans(max_angle=1.0).fit(rows)
fig = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = fig.add_subplot(1, 2, 1), fig.add_subplot(1, 2, 2)
left.imshow(color_normals(normals.vectors))
left.set_axis_off()
plot_sphere(rows, model.labels_, centers=model.cluster_centers_, ax=right, max_points=5_000)
