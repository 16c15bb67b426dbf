"""Schemathesis over the OpenAPI page of the service: requests drawn from what the page says, and from beside it.

    pip install schemathesis        # into an environment of its own, or with --target on PYTHONPATH
    python -m tests.campaigns.service_schema --examples 100

A server is started over a new folder with two collections, one of which has ids, and asked by `schemathesis run`. No
answer may be a 5xx, or be one that the page does not promise.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tests.service.running import Running

from armillary.client import Client

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# the stream of events does not end; without its collections the service has little to say
LEFT_OUT = ("--exclude-path", "/v1/collections/{name}/events/stream", "--exclude-method", "DELETE")


def main() -> int:
    """Run it; the exit status of schemathesis."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.service_schema")
    parser.add_argument("--examples", type=int, default=50, help="for each operation")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if importlib.util.find_spec("schemathesis") is None:
        print("skipped: schemathesis is not installed")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder, "data"), ARMILLARY_RATE="0", ARMILLARY_LOG_LEVEL="error")
        try:
            running.wait()
            with Client(running.url) as client:
                for name in ("0", "people"):  # the shortest name is what schemathesis likes to draw
                    client.create(name, store_members=True).add(np.eye(4, dtype=np.float32))
            return asked(running.url, options.examples, options.seed, Path(folder))
        finally:
            running.kill()
            sys.stderr.write(running.log.read_text()[-4000:])


def asked(url: str, examples: int, seed: int, folder: Path) -> int:
    """Schemathesis in a process of its own, which keeps its examples and reports in a folder that goes."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/v1/openapi.json", "--checks", CHECKS]
    command += ["--max-examples", str(examples), "--seed", str(seed), "--request-timeout", "30", "--no-color"]
    here = os.pathsep.join(
        str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path
    )
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": here}
    return subprocess.run([*command, *LEFT_OUT], cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
