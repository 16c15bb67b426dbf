"""What depth sensors get wrong: noise, steps and range, for the trust in normals and for rendered rooms.

A triangulating sensor (structured light, stereo) measures disparity, b f / z for a baseline b and a focal length f: its
noise and its steps are those of the disparity divided by b f, the same in inverse depth everywhere. A time-of-flight
sensor has noise that grows slowly with depth. Both are s(z) = floor + noise z^2, in metres.

Numbers: Khoshelham and Elberink 2012 (Kinect), the makers' data sheets (RealSense: 0.08 pixel, 1/32 pixel steps; Azure
Kinect: 17 mm at most; LiDAR of phones about 1 % of the depth). They are typical, not those of one device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.validation import check_number


@dataclass(frozen=True)
class Sensor:
    """Noise, steps and range of a depth sensor.

    Parameters
    ----------
    noise : float
        Standard deviation of the inverse depth, in 1/metres: that of the depth is noise z^2.
    floor : float, default=0
        Metres of noise at any depth besides.
    quantum : float, default=0
        Steps of the inverse depth, in 1/metres; 0 for none.
    blur : float, default=0
        Pixels over which the noise hangs together, the standard deviation of a Gaussian.
    near, far : float, default=0.3 and 10
        Metres between which it sees.

    Examples
    --------
    >>> from armillary.vision import Sensor
    >>> round(Sensor.stereo(baseline=0.05, focal=640.0).deviation(2.0), 4)  # metres, at 2 m
    0.01
    """

    noise: float
    floor: float = 0.0
    quantum: float = 0.0
    blur: float = 0.0
    near: float = 0.3
    far: float = 10.0

    def __post_init__(self) -> None:
        for name in ("noise", "floor", "quantum", "blur", "near", "far"):
            object.__setattr__(self, name, check_number(getattr(self, name), name, "Sensor", low=0.0))

    @classmethod
    def structured_light(cls) -> Sensor:
        """A Kinect v1, Xtion or PrimeSense: disparity in steps of 1/8 pixel.

        Returns
        -------
        Sensor
            Nominal.
        """
        return cls(noise=0.001, quantum=1.0 / (8.0 * 0.075 * 580.0), near=0.4, far=8.0)

    @classmethod
    def stereo(cls, baseline: float = 0.05, focal: float = 640.0, disparity_noise: float = 0.08) -> Sensor:
        """A RealSense D4xx: `disparity_noise` in pixels, steps of 1/32 pixel; the baseline of a D455 is 0.095 m.

        Parameters
        ----------
        baseline : float, default=0.05
            Metres between the two cameras.
        focal : float, default=640.0
            Focal length, in pixels.
        disparity_noise : float, default=0.08

        Returns
        -------
        Sensor
            Nominal.
        """
        check_number(baseline, "baseline", "Sensor.stereo", low=1e-4)
        check_number(focal, "focal", "Sensor.stereo", low=1.0)
        power = baseline * focal
        return cls(noise=disparity_noise / power, quantum=1.0 / (32.0 * power), blur=1.5, near=0.2, far=10.0)

    @classmethod
    def time_of_flight(cls, far: float = 5.5) -> Sensor:
        """A Kinect v2, Azure Kinect or another time-of-flight camera.

        Parameters
        ----------
        far : float, default=5.5
            Metres that it sees at most.

        Returns
        -------
        Sensor
            Nominal.
        """
        return cls(noise=0.0005, floor=0.002, near=0.25, far=far)

    @classmethod
    def phone_lidar(cls) -> Sensor:
        """The LiDAR of a phone, its points spread to an image: noise that hangs together.

        Returns
        -------
        Sensor
            Nominal.
        """
        return cls(noise=0.001, floor=0.005, blur=2.0, near=0.2, far=5.0)

    def deviation(self, depth: float) -> float:
        """The standard deviation at a depth, both in metres.

        Parameters
        ----------
        depth : float
            Metres.

        Returns
        -------
        float
            Metres.
        """
        return float(self.floor + self.noise * depth**2)

    def measured(self, depth: Float64Array, rng: np.random.Generator) -> Float64Array:
        """What it says of true depth (H, W) in metres: noise, steps, and 0 beyond its range or where depth is 0.

        Parameters
        ----------
        depth : array of shape (H, W)
            Metres.
        rng : numpy.random.Generator
            Where chance comes from.

        Returns
        -------
        array of shape (H, W)
            Metres.
        """
        from scipy.ndimage import gaussian_filter

        draws: npt.NDArray[np.float64] = rng.standard_normal(depth.shape)
        if self.blur > 0.0:
            draws = gaussian_filter(draws, self.blur) * (2.0 * np.sqrt(np.pi) * self.blur)
        is_seen = depth > 0.0
        z = np.where(is_seen, depth, 1.0)
        w = 1.0 / z + (self.noise + self.floor / (z * z)) * draws
        if self.quantum > 0.0:
            w = np.rint(w / self.quantum) * self.quantum
        found = np.where(w > 1e-3, 1.0 / np.maximum(w, 1e-3), 0.0)
        return np.where(is_seen & (found >= self.near) & (found <= self.far), found, 0.0)
