"""`dlrmbench profile`: which share of the step its phases name, and whether any is faster than its limit."""

from findings import Findings
from setting import Setting, find_one, last_line, number, read_json

LEAST_NAMED, MOST_NAMED, ABOVE_LIMIT = 0.9, 1.05, 1.05
NAMELESS = ("other", "graph_replay")
"""Phases that name nothing (the rest of a step, a whole replay): with them any phases would sum to the step."""


def run(setting: Setting, findings: Findings) -> None:
    out = setting.scratch / "results"
    chosen = ("--device", setting.device, "--implementation", "optimized")
    done = setting.dlrmbench("profile", setting.benchmark, *chosen, "-o", out)
    if done.returncode != 0:
        figure = f"exit code {done.returncode}: {last_line(done.stderr)}"
        findings.judge("phases", False, figure, f"dlrmbench profile {setting.benchmark}")
        return
    record = read_json(find_one(out, "*/extra/profile.json"))
    # Phases are those of instrumented steps, which take a little longer than undisturbed ones.
    measured = record["step"]["measured"]
    step_s = measured["told_step_s"] or measured["step_s"]
    times = {phase["phase"]: phase["measured"]["time_s"] or 0.0 for phase in record["phases"]}
    limits = {phase["phase"]: phase["computed"]["ceiling_fraction"] or 0.0 for phase in record["phases"]}
    named = sum(took_s for name, took_s in times.items() if name not in NAMELESS) / step_s
    findings.note(step_ms=measured["step_s"] * 1e3, instrumented_step_ms=step_s * 1e3, named_share=named)
    findings.note(**{f"phase {name} ms": took_s * 1e3 for name, took_s in times.items()})
    findings.note(**{f"phase {name} of its limit": share for name, share in limits.items()})
    ceilings = record["ceilings"]["measured"]
    for square in ceilings["square"]:
        findings.note(**{f"product {square['n']} TFLOP/s": square["flop_per_s"]["best"] / 1e12})
    for copy in ceilings["copies"]:
        findings.note(**{f"copy {copy['bytes']} TB/s": copy["bytes_per_s"]["best"] / 1e12})
    for way in ("to_device", "to_host"):
        rate = number(ceilings, "transfer", f"{way}_bytes_per_s", "best")
        findings.note(**{f"transfer {way} GB/s": None if rate is None else rate / 1e9})
    highest = max(limits, key=lambda name: limits[name])
    holds = LEAST_NAMED <= named <= MOST_NAMED and limits[highest] <= ABOVE_LIMIT
    figure = f"{named:.1%} of the step named; nearest to its limit: {highest}, {limits[highest]:.1%}"
    findings.judge("phases", holds, figure, f"dlrmbench profile {setting.benchmark}, optimized")
