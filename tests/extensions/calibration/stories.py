"""Folders that interrupted calibrations left, and how they are gone on with, held against goldens/."""

from pathlib import Path

from golden_scenarios import step
from stored_folders import damaged, story


def half_a_line(folder: Path) -> None:
    path = folder / "runs.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:50])


CALIBRATE = "calibrate dlrm_tiny -n 2 --confirm-runs 2 --learning-rate 0.03 --tuning-runs 1 --workers 1"
STORIES = {
    "calibration": story(step(f"{CALIBRATE} -o results/latest"), resumed=f"{CALIBRATE} -o latest"),
    "calibration_half_a_line": damaged("calibration", half_a_line, f"{CALIBRATE} -o latest"),
}
