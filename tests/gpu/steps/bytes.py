"""Peak and bytes of the full-size step on tensors without memory: computed, on any system, by gpu_step.py."""

import subprocess
import sys

from findings import Findings
from setting import ROOT, Setting


def run(setting: Setting, findings: Findings) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "performance" / "gpu_step.py")],
        cwd=setting.scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr[-2000:])
    if done.returncode != 0:
        raise SystemExit(f"gpu_step.py ended with {done.returncode}")
    for line in done.stdout.splitlines():
        name, _, words = line.strip().partition(" peak ")
        findings.note(**{f"computed: {name}": f"peak {' '.join(words.split())}" if words else "what was counted"})
