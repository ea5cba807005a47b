"""Workers of a usage end with who started them, whatever they are at: none of them is asked to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from places import ROOT
from waiting import has_ended, wait_until

GONE_WITHIN_S = 120.0
PARENT = """
import sys
from functools import partial
from usage_work import keep_working
from harness.extensions.usage.crew import Crew

if __name__ == "__main__":
    with Crew(2, 1) as crew:
        crew.ask([partial(keep_working, place=sys.argv[1]), partial(keep_working, place=sys.argv[2])])
"""


@pytest.mark.slow
def test_workers_are_gone_once_who_asks_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    places = [tmp_path / name for name in ("first", "second")]
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py", *places],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent / 'builders'}{os.pathsep}{ROOT}"},
    )
    workers = []
    try:
        wait_until(lambda: all(place.is_file() and place.read_text() for place in places), "both workers work")
        workers = [int(place.read_text()) for place in places]
        parent.kill()
        parent.wait()
        end_s = time.monotonic() + GONE_WITHIN_S
        while not all(map(has_ended, workers)):
            assert time.monotonic() < end_s, f"there are workers after {GONE_WITHIN_S:.0f} s"
            time.sleep(0.1)
    finally:
        parent.kill()
        for worker in workers:
            if not has_ended(worker):
                os.kill(worker, signal.SIGKILL)


def test_a_worker_imports_nothing_heavy_before_it_watches_its_parent() -> None:
    """What takes seconds to import would be imported by a process that nobody waits for."""
    code = "import harness.extensions.usage.worker, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout.split()
    assert not {"torch", "numpy", "scipy", "pandas", "pyarrow"} & {*loaded}
