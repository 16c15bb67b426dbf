"""From a depth camera to directions: normals, segments, and a room to try them in."""

from armillary.vision.camera import Camera
from armillary.vision.coloring import color_depth, color_labels, color_normals
from armillary.vision.frames import Frames, open_frames
from armillary.vision.images import (
    Animation,
    read_depth_image,
    read_id_image,
    write_id_image,
    write_image,
    write_label_image,
)
from armillary.vision.manhattan import Manhattan
from armillary.vision.normals import Normals, estimate_normals
from armillary.vision.regions import clean_regions
from armillary.vision.room import RoomFrame, RoomWalk, make_room_walk
from armillary.vision.segmentation import segment
from armillary.vision.segmenter import DirectionSegmenter, SegmentedFrame
from armillary.vision.smoothing import smooth_depth, smooth_normals

__all__ = [
    "Animation",
    "Camera",
    "DirectionSegmenter",
    "Frames",
    "Manhattan",
    "Normals",
    "RoomFrame",
    "RoomWalk",
    "SegmentedFrame",
    "clean_regions",
    "color_depth",
    "color_labels",
    "color_normals",
    "estimate_normals",
    "make_room_walk",
    "open_frames",
    "read_depth_image",
    "read_id_image",
    "segment",
    "smooth_depth",
    "smooth_normals",
    "write_id_image",
    "write_image",
    "write_label_image",
]
