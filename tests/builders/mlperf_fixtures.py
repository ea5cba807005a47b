"""Where published MLPerf results lie beside a checkout, for the tests that hold this package against them."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "mlperf"
NVIDIA = FOLDER / "training_results_v5.0" / "NVIDIA"
CISCO = FOLDER / "training_results_v5.1" / "Cisco"
INTEL = FOLDER / "training_results_v3.1" / "Intel"
FLORIDA = FOLDER / "training_results_v5.1" / "University-of-Florida"
needs_published_results = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="published MLPerf results are not beside this checkout (../shared/fixtures/mlperf)"
)
