"""Give shell commands that fix the environment check's warnings (`harness.system.preflight`), as text. No function
here runs one."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.system.preflight import unsupported_requirements
from harness.system.resources import ROOT, read_text
from harness.system.software import container
from rules.logs.text import printable
from rules.records.run_set import PreflightCheck

_CPU = "sys/devices/system/cpu"
_CLOCK = "sys/devices/system/clocksource/clocksource0"
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
_LOOKS = {
    "load": ("ps -eo pid,user,pcpu,etime,args --sort=-pcpu | head -n 11",),
    "memory": ("ps -eo pid,user,rss,etime,args --sort=-rss | head -n 11",),
    "accelerators": (
        "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
    ),
}
"""Commands that list the processes or settings behind a warning, by the name of the environment check. They end or
change nothing: only the user can tell which processes may be ended."""


def find_commands(name: str, root: Path = ROOT, *, is_root: bool | None = None) -> tuple[str, ...]:
    """Return shell commands for a warning of the environment check `name`, in the order in which to run them. They
    fix the cause, or list the processes or settings behind it. Return an empty tuple if no command helps.

    If `is_root`, the commands are written without sudo. By default, sudo is left out if this process runs as root.
    """
    is_root = os.geteuid() == 0 if is_root is None else is_root
    sudo = "" if is_root else "sudo "

    def put(value: str, place: str) -> tuple[str, ...]:
        return (f"echo {value} | {sudo}tee /{place}",)

    if name in _LOOKS:
        return _LOOKS[name]
    if name == "governor":
        return put("performance", f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor")
    if name == "boost":
        is_intel = read_text(root / _CPU / "intel_pstate/no_turbo") is not None
        return put("1", f"{_CPU}/intel_pstate/no_turbo") if is_intel else put("0", f"{_CPU}/cpufreq/boost")
    if name == "swap":
        return (f"{sudo}swapoff -a && {sudo}swapon -a",)
    if name == "huge_pages":
        return put("madvise", _HUGE_PAGES)
    if name == "clock" and "tsc" in (read_text(root / _CLOCK / "available_clocksource") or "").split():
        return put("tsc", f"{_CLOCK}/current_clocksource")
    if name == "libraries" and (wanted := unsupported_requirements()):
        return (shlex.join([sys.executable, "-m", "pip", "install", *map(str, wanted)]),)
    return ()


def write_script(checks: Sequence[PreflightCheck], root: Path = ROOT, *, is_root: bool | None = None) -> str:
    """Return a shell script for warnings of the environment check. For each warning it has the remedy as comments,
    then the commands."""
    lines = ["# Read before you run: nothing was run. What is set under /sys lasts until the next boot."]
    if where := container(root):
        lines.append(f"# In a container ({printable(where)}) /sys and swap are the host's: run these commands there.")
    for check in checks:
        if check.status != "warning":
            continue
        commands = find_commands(check.name, root, is_root=is_root)
        lines += ["", printable(f"# {check.name}: {check.value}"), printable(f"# {check.remedy}")]
        lines += commands or ["# No command does this."]
    if len(lines) == 1 + bool(where):
        lines = ["# No check warns: there is nothing to do."]
    return "\n".join(lines)
