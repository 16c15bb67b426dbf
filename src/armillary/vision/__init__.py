"""From a depth camera to directions: normals, segments, and a room to try them in."""

from armillary.vision.camera import Camera
from armillary.vision.coloring import DirectionColors, color_depth, color_labels, color_normals, overlay
from armillary.vision.exports import colored_points, to_open3d, write_ply
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
from armillary.vision.planes import Atlanta, Plane, WorldFrames, atlanta_frames, find_planes, gravity_direction
from armillary.vision.pose_files import open_poses
from armillary.vision.regions import clean_regions
from armillary.vision.room import RoomFrame, RoomWalk, make_room_walk
from armillary.vision.segmentation import segment
from armillary.vision.segmenter import DirectionSegmenter, Reason, SegmentedFrame
from armillary.vision.sensors import Sensor
from armillary.vision.smoothing import smooth_depth, smooth_normals
from armillary.vision.steady import LastFrame
from armillary.vision.viewer import StreamViewer

__all__ = [
    "Animation",
    "Atlanta",
    "Camera",
    "DirectionColors",
    "DirectionSegmenter",
    "Frames",
    "LastFrame",
    "Manhattan",
    "Normals",
    "Plane",
    "Reason",
    "RoomFrame",
    "RoomWalk",
    "SegmentedFrame",
    "Sensor",
    "StreamViewer",
    "WorldFrames",
    "atlanta_frames",
    "clean_regions",
    "color_depth",
    "color_labels",
    "color_normals",
    "colored_points",
    "estimate_normals",
    "find_planes",
    "gravity_direction",
    "make_room_walk",
    "open_frames",
    "open_poses",
    "overlay",
    "read_depth_image",
    "read_id_image",
    "segment",
    "smooth_depth",
    "smooth_normals",
    "to_open3d",
    "write_id_image",
    "write_image",
    "write_label_image",
    "write_ply",
]
