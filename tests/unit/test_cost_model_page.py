"""The page about costs says what is stored."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(
    r"\| ([\d,]+) x (\d+), (\d+) \|(?: (?:one process|two workers) \|)? ([\d.]+) (ms|s) \| ([\d.]+) (?:ms|s) \|"
)


def test_measured_and_predicted_seconds_are_those_that_are_stored():
    stored = json.loads((ROOT / "benchmarks" / "results" / "cost_model.json").read_text())
    steps = [one for one in stored["steps"] if one["half"] == "predicted"]
    lines = [*steps, *stored["over_workers"], *stored["stored_runs"]]
    told = LINE.findall((ROOT / "docs" / "cost_model.md").read_text())
    assert len(told) == len(lines)
    for (n_rows, n_features, n_clusters, seconds, unit, predicted), line in zip(told, lines, strict=True):
        assert [int(n_rows.replace(",", "")), int(n_features), int(n_clusters)] == line["shape"]
        for words, value in ((seconds, line["seconds"]), (predicted, line["predicted"])):
            digits = len(words.partition(".")[2])
            assert float(words) == round(value * (1000 if unit == "ms" else 1), digits)
    errors = [abs(line["error"]) for line in lines]
    page = (ROOT / "docs" / "cost_model.md").read_text()
    assert f"The largest error is {100 * max(errors):.0f} %" in page
    assert max(errors) <= 0.2  # what was asked for
