"""A real run to the target by the command line, and what its record says of the GPU."""

import json

from findings import Findings
from setting import Setting, find_one, last_line, number, read_json


def run(setting: Setting, findings: Findings) -> None:
    out = setting.scratch / "results"
    chosen = ("--device", setting.device, "--implementation", "optimized")
    done = setting.dlrmbench("run", setting.benchmark, *chosen, "-n", "1", "-o", out, "-q")
    if done.returncode != 0:
        figure = f"exit code {done.returncode}: {last_line(done.stderr)}"
        findings.judge("target", False, figure, f"dlrmbench run {setting.benchmark}")
        return
    log, record = find_one(out, "*/results/*/*/result_0.txt"), read_json(find_one(out, "*/extra/run_0/*/run.json"))
    checked = setting.dlrmbench("check", log, "--format", "json", "--no-second-opinion")
    verdict = verdict_of(checked.stdout)
    quality = [entry["quality"] for entry in record["evaluations"]]
    joules, peak = number(record, "energy", "energy_j"), number(record, "peak_device_bytes")
    train_s = sum(block["duration_s"] for block in record["blocks"])
    samples = sum(block["num_samples"] for block in record["blocks"])
    findings.note(
        verdict=verdict,
        status=str(record["status"]),
        last_auc=quality[-1] if quality else None,
        energy_j=joules,
        peak_device_bytes=peak,
        samples_per_s=samples / train_s if train_s else None,
        not_measured="; ".join(gap["reason"] for gap in (record["energy"] or {}).get("not_measured", ())),
    )
    holds = record["status"] == "success" and verdict == "valid" and joules is not None and (peak or 0) > 0
    measured = f"{joules:.0f} J" if joules is not None else "no joules"
    held = f"{peak / 1e6:.0f} MB" if peak else "no peak"
    figure = f"log {verdict}, AUC {quality[-1]:.4f}, {measured}, {held}" if quality else f"log {verdict}, no AUC"
    findings.judge("target", holds, figure, f"dlrmbench run {setting.benchmark} -n 1, and check of its log")


def verdict_of(document: str) -> str:
    """Return the verdict on the one log in what check printed."""
    try:
        (verdict,) = json.loads(document)["verdicts"]
        return str(verdict["outcome"])
    except (ValueError, KeyError, TypeError):
        return "unreadable"
