"""
Which wall is this, and was it here before?
===========================================

A depth camera turns in a made room and comes back. Walls that return have the id they had.
"""

from armillary.plots import plot_segmentation
from armillary.vision import DirectionSegmenter, make_room_walk

walk = make_room_walk(12, width=240, height=180, random_state=0)
segmenter = DirectionSegmenter(camera=walk.camera)
frames = [segmenter.step(depth) for depth in walk.depths]
shown = [0, 3, 6, 11]
figure = plot_segmentation(
    [frames[number].labels for number in shown],
    depths=[walk.depths[number] for number in shown],
    titles=[f"frame {number}" for number in shown],
)
