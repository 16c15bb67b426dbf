"""The report of a million rows: time and memory to write it, its size, and how long a browser takes to draw it.

    python -m benchmarks.report_size

Needs Playwright and Chromium. Writes results/report_size.json.
"""

from __future__ import annotations

import json
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from armillary.datasets import make_vmf_mixture
from armillary.report import ReportData, write_report

RESULT = Path(__file__).parent / "results" / "report_size.json"
N_ROWS, N_COLUMNS, N_CLUSTERS = 1_000_000, 32, 100


def main() -> None:
    """Write, open, turn, search, store."""
    X, labels, _ = make_vmf_mixture(N_ROWS, N_COLUMNS, N_CLUSTERS, concentration=60.0, random_state=0, dtype=np.float32)
    texts = [f"row {row}: words number {row % 977} and {row % 131}" for row in range(N_ROWS)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = Path(tempfile.mkdtemp(), "report.html")
    wall, cpu = time.perf_counter(), time.process_time()
    write_report(path, ReportData(X, labels, texts=texts, names={k: f"name {k}, words" for k in range(N_CLUSTERS)}))
    told = {
        "command": "python -m benchmarks.report_size",
        "rows": N_ROWS,
        "columns": N_COLUMNS,
        "clusters": N_CLUSTERS,
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "mib_above_the_data": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "page_mib": path.stat().st_size / 2**20,
        **_opened(path),
    }
    print(json.dumps(told, indent=2))
    RESULT.write_text(json.dumps(told, indent=2) + "\n")


def _opened(path: Path) -> dict[str, float]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_function("document.getElementById('stage').dataset.milliseconds")
        opened = time.perf_counter() - start
        drawn = float(page.get_attribute("#stage", "data-milliseconds") or "nan")
        start = time.perf_counter()
        page.fill("#search", "number 500")
        page.wait_for_selector("#row-list li")
        found = time.perf_counter() - start
        browser.close()
    return {"seconds_to_open": opened, "milliseconds_to_draw": drawn, "seconds_to_search": found}


if __name__ == "__main__":
    main()
