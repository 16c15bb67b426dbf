"""`import armillary` beside `import numpy`, in fresh processes."""

from __future__ import annotations

import subprocess
import sys

from benchmarks import measure


def main() -> None:
    """Best of ten for each, taking turns."""
    best = {"numpy": float("inf"), "armillary": float("inf")}
    for _ in range(10):
        for name in best:
            command = [sys.executable, "-c", f"import {name}"]
            best[name] = min(best[name], measure.seconds(lambda c=command: subprocess.run(c, check=True)))  # type: ignore[misc]
    print(f"numpy {best['numpy']:.3f} s, armillary {best['armillary']:.3f} s: {best['armillary'] / best['numpy']:.2f}x")


if __name__ == "__main__":
    main()
