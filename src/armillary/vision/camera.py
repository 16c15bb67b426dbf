"""A pinhole camera: intrinsics, and depth images to points.

Axes are those of computer vision: x to the right, y down, z ahead. Pixel (row v, column u) at depth z, measured along
the z axis, is the point z ((u - cx) / fx, (v - cy) / fy, 1).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.validation import check_choice, check_integer, check_number, check_path, check_positive
from armillary.vision.camera_files import FIELDS, has_intrinsics, read_fields
from armillary.vision.sensors import Sensor

# metres; nothing a depth camera measures lies outside, and inside no square of an inverse depth vanishes or overflows
NEAREST, FARTHEST = 1e-4, 1e5
# of intrinsics, for the same reason
_MOST = 1e6

# fx, fy, cx, cy of the TUM RGB-D benchmark; "default" is what its authors advise for depth registered to colour
_TUM = {
    "default": (525.0, 525.0, 319.5, 239.5),
    "freiburg1": (517.3, 516.5, 318.6, 255.3),
    "freiburg2": (520.9, 521.0, 325.1, 249.7),
    "freiburg3": (535.4, 539.2, 320.1, 247.6),
}

# fx, fy, cx, cy, width, height as the makers or many calibrations give them, and the kind of sensor
PRESETS: dict[str, tuple[float, float, float, float, int, int, Sensor]] = {
    "kinect": (525.0, 525.0, 319.5, 239.5, 640, 480, Sensor.structured_light()),
    "kinect_v2": (365.5, 365.5, 254.9, 205.4, 512, 424, Sensor.time_of_flight(far=4.5)),
    "azure": (504.0, 504.0, 320.0, 328.0, 640, 576, Sensor.time_of_flight(far=5.5)),
    "realsense_d415": (610.0, 610.0, 319.5, 239.5, 640, 480, Sensor.stereo(0.055, 610.0)),
    "realsense_d435": (385.0, 385.0, 319.5, 239.5, 640, 480, Sensor.stereo(0.050, 385.0)),
    "realsense_d455": (385.0, 385.0, 319.5, 239.5, 640, 480, Sensor.stereo(0.095, 385.0)),
    "iphone": (213.0, 213.0, 127.5, 95.5, 256, 192, Sensor.phone_lidar()),
    "tof": (266.3, 266.3, 159.5, 119.5, 320, 240, Sensor.time_of_flight()),
}
# Images of 16:9 of a RealSense are no scaled copies of those of 4:3: focal length by width, and metres between its eyes
_WIDE = {"realsense_d415": (0.715, 0.055), "realsense_d435": (0.5, 0.050), "realsense_d455": (0.5, 0.095)}


@dataclass(frozen=True)
class Camera:
    """Intrinsics of a depth camera without distortion.

    Parameters
    ----------
    fx, fy : float
        Focal lengths in pixels.
    cx, cy : float
        The principal point in pixels; the centre of the first pixel is (0, 0).
    width, height : int
        Size of its images.
    depth_scale : float, default=1000.0
        What an integer depth image has for one metre: 1000 for millimetres, 5000 for the TUM benchmark. Depth in
        floating point is in metres already.
    sensor : Sensor, optional
        What is known of its noise, for the trust in normals far away. The presets have one.

    Examples
    --------
    >>> from armillary.vision import Camera
    >>> camera = Camera.kinect().scaled(0.5)
    >>> camera.width, camera.height, camera.fx
    (320, 240, 262.5)
    """

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    depth_scale: float = field(default=1000.0, kw_only=True)
    sensor: Sensor | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        for name in ("fx", "fy", "depth_scale"):
            self._set(name, check_number(getattr(self, name), name, "Camera", low=1.0 / _MOST, high=_MOST))
        for name in ("cx", "cy"):
            self._set(name, check_number(getattr(self, name), name, "Camera", low=-_MOST, high=_MOST))
        for name in ("width", "height"):
            self._set(name, check_integer(getattr(self, name), name, "Camera", low=1))
        if not (self.sensor is None or isinstance(self.sensor, Sensor)):
            raise ParameterError(
                f"`sensor` of Camera must be a Sensor or None; got {self.sensor!r}. Give e.g. Sensor.stereo()."
            )

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    # ------------------------------------------------------------------------------------------- makers

    @classmethod
    def kinect(cls) -> Camera:
        """The nominal Kinect v1 or Xtion, 640 x 480, depth in millimetres.

        Returns
        -------
        Camera
            Nominal.
        """
        return cls(525.0, 525.0, 319.5, 239.5, 640, 480, sensor=Sensor.structured_light())

    @classmethod
    def preset(cls, name: str, *, size: tuple[int, int] | None = None) -> Camera:
        """A nominal camera by name, for recordings without a calibration; depth is in millimetres.

        "kinect" (v1, Xtion), "kinect_v2", "azure" (narrow, unbinned), "realsense_d415", "realsense_d435",
        "realsense_d455" (640 x 480), "iphone" (LiDAR of Record3D, 256 x 192) and "tof" (a time-of-flight camera of
        320 x 240 pixels and 62 degrees). Depth that was aligned to colour has the lens of the colour camera: take its
        calibration.

        Parameters
        ----------
        name : str
            One of these.
        size : tuple of two int, optional
            Width and height of scaled images; of a RealSense also of those of 16:9, such as 848 x 480 and 1280 x 720.

        Returns
        -------
        Camera
            Nominal.

        Examples
        --------
        >>> from armillary.vision import Camera
        >>> Camera.preset("realsense_d435", size=(848, 480)).fx
        424.0
        """
        who = "Camera.preset"
        check_choice(name, "name", who, PRESETS)
        fx, fy, cx, cy, width, height, sensor = PRESETS[name]
        camera = cls(fx, fy, cx, cy, width, height, sensor=sensor)
        wanted = _checked_size(size, who) or (width, height)
        if name in _WIDE and abs(9.0 * wanted[0] / wanted[1] - 16.0) < 0.2:
            share, baseline = _WIDE[name]
            focal, (wide, high) = share * wanted[0], wanted
            return cls(
                focal, focal, 0.5 * (wide - 1), 0.5 * (high - 1), wide, high, sensor=Sensor.stereo(baseline, focal)
            )
        scaled = camera if wanted == (width, height) else camera.scaled(wanted[0] / width)
        if (scaled.width, scaled.height) != wanted:
            raise InputError(
                f"Images of {name!r} are {width} x {height}, or scaled copies of these; got {wanted[0]} x {wanted[1]}. "
                "Give the intrinsics of yours: Camera(fx, fy, cx, cy, width, height), or a file of them."
            )
        return scaled

    @classmethod
    def tum(cls, sequence: str = "default") -> Camera:
        """The TUM RGB-D benchmark, 640 x 480, 5000 to the metre.

        `sequence` is "default", the parameters its authors advise for all, or "freiburg1", "freiburg2", "freiburg3" for
        the calibrated ones.

        Parameters
        ----------
        sequence : str, default="default"

        Returns
        -------
        Camera
            Of the sequence.
        """
        check_choice(sequence, "sequence", "Camera.tum", _TUM)
        return cls(*_TUM[sequence], 640, 480, depth_scale=5000.0, sensor=Sensor.structured_light())

    @classmethod
    def from_field_of_view(cls, width: int, height: int, angle: float, *, depth_scale: float = 1000.0) -> Camera:
        """Square pixels, the axis in the middle, and the horizontal field of view `angle` in radians, below pi.

        Parameters
        ----------
        width : int
            Pixels.
        height : int
            Pixels.
        angle : float
            Radians.
        depth_scale : float, default=1000.0
            Of integers: what a metre is.

        Returns
        -------
        Camera
            As described.
        """
        who = "Camera.from_field_of_view"
        check_integer(width, "width", who, low=1)
        check_integer(height, "height", who, low=1)
        check_number(angle, "angle", who, low=1e-3, high=3.0, hint="Angles are in radians: math.radians(57) is 0.9948.")
        focal = 0.5 * width / math.tan(0.5 * angle)
        return cls(focal, focal, 0.5 * (width - 1), 0.5 * (height - 1), width, height, depth_scale=depth_scale)

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, *, size: tuple[int, int] | None = None) -> Camera:
        """A camera from a file: JSON, YAML or text.

        JSON is an object with `fx`, `fy`, `cx`, `cy`, `width`, `height` and perhaps `depth_scale`; other fields are
        passed over. It may also hold several such objects by name: `name` then says which, unless all are equal. In
        place of the first four there may be `intrinsic_matrix`, nine numbers column by column as Open3D writes them,
        the metadata of Record3D, or `K` of a ROS camera_info, which may be YAML too (the extra "vision"), as may be
        files of Kalibr and ORB-SLAM. Text files are those of ScanNet, TUM and COLMAP: "fx_depth = ...", a matrix, or
        "fx fy cx cy"; `size` (width, height) is for those that do not tell it.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        name : str, optional
        size : tuple of two int, optional

        Returns
        -------
        Camera
            As the file says.
        """
        who = "Camera.from_file"
        found = read_fields(Path(check_path(path, who)), _checked_size(size, who), who)
        if name is None and has_intrinsics(found):
            return _from_object(found, path)
        cameras = {key: value for key, value in found.items() if isinstance(value, dict) and has_intrinsics(value)}
        if not cameras:
            raise InputError(
                f"Camera.from_file needs the fields {', '.join(FIELDS)}; {path} has "
                f"{', '.join(sorted(found)[:8]) or 'none'}. Add the missing ones."
            )
        if name is not None:
            check_choice(name, "name", f"Camera.from_file for {path}", cameras)
            return _from_object(cameras[name], path)
        different = {_from_object(value, path) for value in cameras.values()}
        if len(different) > 1:
            raise ParameterError(
                f"`name` of Camera.from_file must say which camera of {path} is meant; it holds {', '.join(cameras)}. "
                "On the command line give --camera FILE:NAME."
            )
        return different.pop()

    # ---------------------------------------------------------------------------------------------- use

    def scaled(self, factor: float) -> Camera:
        """The camera of images resized by `factor`, whole pixels merged or cut.

        Parameters
        ----------
        factor : float
            0.5 halves both sides.

        Returns
        -------
        Camera
            Of the other size.
        """
        check_positive(factor, "factor", "Camera.scaled", is_finite=True)
        # the corner of the image stays: centre u of a pixel lies at u + 1/2 from it
        return replace(
            self,
            fx=self.fx * factor,
            fy=self.fy * factor,
            cx=(self.cx + 0.5) * factor - 0.5,
            cy=(self.cy + 0.5) * factor - 0.5,
            width=max(1, round(self.width * factor)),
            height=max(1, round(self.height * factor)),
        )

    def metres(self, depth: Any, who: str = "Camera.metres") -> FloatArray:
        """Depth (H, W) in metres, 0 where the camera saw nothing.

        Integers are divided by `depth_scale`; 0, negative numbers, NaN and infinities are no measurement. Float64 stays
        float64, everything else becomes float32.

        Parameters
        ----------
        depth : array of shape (H, W)
            As the camera gives it.
        who : str
            Whom an error names.

        Returns
        -------
        array of shape (H, W)
            Metres.
        """
        image = self.check_depth(depth, who)
        scale = 1.0 if image.dtype.kind == "f" else self.depth_scale
        values: Float64Array = image.astype(np.float64) / scale
        is_measured = (values >= NEAREST) & (values <= FARTHEST)
        metres = np.where(is_measured, values, 0.0)
        return metres if image.dtype == np.float64 else metres.astype(np.float32)

    def points(self, depth: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Points (H, W, 3) in metres, zeros where nothing was measured, and where something was (H, W).

        `depth` is as in `metres`. x points to the right, y down, z ahead.

        Parameters
        ----------
        depth : array of shape (H, W)

        Returns
        -------
        points : array of shape (H, W, 3), float32
        is_measured : array of shape (H, W), bool
        """
        z = self.metres(depth, "Camera.points")
        points = np.empty((self.height, self.width, 3), dtype=np.float32)
        points[..., 0] = z * ((np.arange(self.width) - self.cx) / self.fx)
        points[..., 1] = z * ((np.arange(self.height) - self.cy) / self.fy)[:, None]
        points[..., 2] = z
        return points, z > 0.0

    def check_depth(self, depth: Any, who: str) -> npt.NDArray[Any]:
        """`depth` as a 2-D array of integers or floats that fits this camera; refused with a sentence otherwise.

        Parameters
        ----------
        depth : array of shape (H, W)
        who : str
            Whom an error names.

        Returns
        -------
        array of shape (H, W)
            The same numbers.
        """
        image = np.asarray(np.ma.filled(depth, 0))  # what is masked was not measured
        if image.dtype.kind not in "uif":
            raise InputTypeError(
                f"`depth` of {who} must hold integers in units of the camera, or floats in metres; got dtype "
                f"{image.dtype}. Read the depth image as it is, 16 bits deep."
            )
        if image.ndim != 2:
            raise InputError(
                f"`depth` of {who} must be one image of shape (height, width); got shape {image.shape}. A colour image "
                "holds no depth, and frames of a sequence are given one by one."
            )
        if image.shape != (self.height, self.width):
            raise InputError(
                f"`depth` of {who} must have the size of its camera, {self.width} x {self.height}; got "
                f"{image.shape[1]} x {image.shape[0]}. For images of another size take camera.scaled(factor)."
            )
        return image

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain numbers, in the form that `from_file` reads.

        Returns
        -------
        dict
            For JSON.
        """
        found = asdict(self)
        if self.sensor is None:
            del found["sensor"]
        return found


def _checked_size(size: Any, who: str) -> tuple[int, int] | None:
    """Width and height, or None."""
    if size is None:
        return None
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise ParameterError(f"`size` of {who} must be (width, height); got {size!r}.")
    return check_integer(size[0], "size", who, low=1), check_integer(size[1], "size", who, low=1)


def check_camera(camera: Any, who: str) -> Camera:
    """A `Camera`, refused with a sentence otherwise."""
    if isinstance(camera, Camera):
        return camera
    raise ParameterError(
        f"`camera` of {who} must be a Camera; got {camera!r}. Give its intrinsics: Camera(fx, fy, cx, cy, width, "
        "height), Camera.kinect(), Camera.tum() or Camera.from_file(path)."
    )


def _from_object(values: dict[str, Any], path: str | Path) -> Camera:
    missing = [name for name in FIELDS if name not in values]
    if missing:
        way_out = "Add them" if set(missing) - {"width", "height"} else "Add them, or give `size`, (width, height)"
        raise InputError(
            f"Camera.from_file needs the fields {', '.join(FIELDS)}; {path} lacks {', '.join(missing)}. {way_out}."
        )
    try:
        sensor = Sensor(**values["sensor"]) if isinstance(values.get("sensor"), dict) else None
        return Camera(**{name: values[name] for name in (*FIELDS, "depth_scale") if name in values}, sensor=sensor)
    except (ParameterError, TypeError) as error:
        raise InputError(f"{path} holds no camera: {error}") from None
