"""What calibration adds to tests of the core."""

from typing import Any

TRAINING = {"calibrate": "calibrate {benchmark}"}
WORDS = {"calibrate": ((), "calibrate dlrm_tiny --quick")}
MEASURING = WORDS
STAND_INS = {
    "harness.extensions.calibration.calibrate:describe_platform": "calibration_stand_ins:describe_scripted_platform",
    "harness.extensions.calibration.runs:train_epoch": "calibration_stand_ins:calibrated",
}


def _calibration() -> dict[str, Any]:
    words = (WORDS["calibrate"][1],)
    return {"before": words, "inputs": "results/*/*.*", "words": words}


FAMILIES = {"calibration": _calibration}
