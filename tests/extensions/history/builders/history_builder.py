"""The page of a history whose every text is hostile or very long."""

from pathlib import Path
from typing import Any

from measured_builder import write_measured
from records_builder import system_part

from harness.extensions.history.page import render_history
from harness.extensions.history.series import read_series


def write_hostile_history(folder: Path, text: str) -> Path:
    """Write the page of five series of 14 sets, one of which changes; `text` is in every place that holds text."""
    for number in range(5):
        for day in range(14):
            value = (
                (850.0 if day > 9 else 1000.0) * (1 + 0.01 * (day * 7 % 5)) if number == 0 else 1000.0 + day * 7 % 5
            )
            about: dict[str, Any] = {
                "created_utc": f"2026-01-{day + 1:02d}T03:00:00+00:00",
                "benchmark": {"name": text, "version": 1, "status": "own", "definition_sha256": "a" * 64},
                "system": system_part(text, host_processor_model_name=f"{number} {text}"),
                "environment": {"commit": text, f"{text} {day}": text, "long": f"{day}" + "y" * 5000},
                "code_sha256": f"{day // 4:x}" * 64,
            }
            write_measured(folder / f"{'x' * 100}-{number}-{day}", "throughput", [value, value * 1.001], **about)
    every, left_out = read_series(folder)
    assert sorted(len(series.changes) for series in every) == [0, 0, 0, 0, 1]
    (folder / "history.html").write_text(render_history(every, left_out), encoding="utf-8")
    return folder / "history.html"
