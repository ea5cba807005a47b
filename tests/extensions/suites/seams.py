"""What suites add to tests of the core."""

from typing import Any

WORDS = {"suite": ((), "suite mine.toml -q --threads 1")}
SHOWN_PAGES = {"suite": ("dlrm_tiny", "threads=2 against threads=1: (faster|slower|inconclusive|no difference)")}
MEASURING = WORDS
MEASURED_SLOWLY = {"suite": "it has two sides"}
FILES = {"mine.toml": 'benchmarks = ["dlrm_tiny"]\n[base.runtime]\nthreads = 1\n[new.runtime]\nthreads = 2\n'}
FILE_WORDS = {"benchmarks of a suite": "suite asked.toml -q --threads 1"}
FILE_KEYS = {"benchmarks of a suite": "benchmarks = [{}]\n[base.runtime]\nthreads = 1\n[new.runtime]\nthreads = 2\n"}


def _suite() -> dict[str, Any]:
    return {"files": {"s.toml": FILES["mine.toml"]}, "words": ("suite s.toml -q",)}


FAMILIES = {"suite": _suite}
COMPLETED = {
    "suite": ("d", ["default"]),
    "suite default --base": ("train.gl", ["train.global_batch_size="]),
}
