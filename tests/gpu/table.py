"""The table of claims, and the lines of tests/gpu/README.md: both from one JSON. Standard library only."""

from collections.abc import Mapping
from typing import Any

from claims import CLAIMS
from findings import printable
from runner import judge_claims

Results = Mapping[str, Mapping[str, Any]]
BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"


def escaped(text: str) -> str:
    """For a cell of a Markdown table, in which HTML is none."""
    return printable(text, 200).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def terminal_table(results: Results) -> str:
    """Claim, verdict, figure and how it was found, in columns; then how each step ended."""
    verdicts = judge_claims(results)
    lines = []
    for claim in CLAIMS:
        judged = verdicts[claim.name]
        lines.append(f"{judged['verdict'].upper():10s} {claim.sentence}")
        lines += [f"           {part}" for part in (judged["figure"], judged["how"]) if part]
    counts = {
        verdict: sum(judged["verdict"] == verdict for judged in verdicts.values())
        for verdict in ("proved", "disproved", "not run")
    }
    lines += [
        "",
        ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) + f" of {len(CLAIMS)} claims",
    ]
    for name, step in results.items():
        why = f": {step['why']}" if step["why"] else ""
        lines.append(f"  {name:11s}{step['ended']}, {step['duration_s']:.0f} s{why}")
        lines += [f"             {problem}" for problem in step["problems"]]
    return "\n".join(lines)


def systems_of(results: Results) -> list[str]:
    """Name each GPU that a step ran on, with driver, torch and day; empty where none did."""
    named = []
    for step in results.values():
        system = step["system"]
        if system.get("gpu") and step["ended"] != "left out":
            day = str(step.get("started_utc", ""))[:10]
            words = f"{system['gpu']}, driver {system.get('driver')}, torch {system.get('torch')}, {day}"
            named.append(printable(words, 160))
    return sorted(set(named))


def readme_section(results: Results) -> str:
    """Make the last lines of tests/gpu/README.md: where and when it was run, and each claim with its verdict."""
    systems = systems_of(results)
    where = f"Run on {'; '.join(map(escaped, systems))}." if systems else "No GPU has run any of this yet."
    verdicts = judge_claims(results)
    rows = []
    for claim in CLAIMS:
        judged = verdicts[claim.name]
        figure = "" if judged["verdict"] == "not run" else escaped(judged["figure"])
        rows.append(f"| {claim.sentence} | {judged['verdict']} | {figure} |")
    return "\n".join([where, "", "| claim | verdict | figure |", "|---|---|---|", *rows])
