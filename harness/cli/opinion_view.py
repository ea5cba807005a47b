"""How `check` shows the official checkers' opinions: theirs beside ours, and where the two differ."""

from harness.cli.escaping import markdown_safe
from harness.cli.table import printable, render_table, terminal_width
from rules.checks.verdict import Verdict
from rules.judge.agreement import compare_opinions, differences
from rules.official.opinion import OfficialOpinion

_HEADERS = ("rules", "ours", "theirs")


def opinion_lines(verdict: Verdict) -> list[str]:
    """A table of ours beside theirs, then a line for every difference; nothing where they were not asked."""
    rows = compare_opinions(verdict)
    if not rows:
        return []
    cells = [(row.name, row.ours, row.theirs) for row in rows]
    table = render_table(_HEADERS, cells, "lll", width=terminal_width() - 4)
    return [
        f"second opinion: {asked_tools(verdict)}",
        *(f"  {line}" for line in table.split("\n")),
        *(printable(line) for line in differences(verdict) or ("ours and theirs agree",)),
    ]


def asked_tools(verdict: Verdict) -> str:
    """'mlperf_logging 4.1.68 (compliance, seed, rcp), ruleset 5.1.0'."""
    opinions = list(_all(verdict))
    checkers = ", ".join(dict.fromkeys(one.checker for one in opinions))
    rulesets = ", ".join(dict.fromkeys(one.ruleset for one in opinions))
    name, *_, version = opinions[0].tool.split(" ")
    return printable(f"{name} {version} ({checkers}), ruleset {rulesets}")


def _all(verdict: Verdict) -> tuple[OfficialOpinion, ...]:
    return (*verdict.official, *(one for part in verdict.parts for one in _all(part)))


def opinion_markdown(verdict: Verdict) -> list[str]:
    """The same as lines of Markdown."""
    rows = compare_opinions(verdict)
    if not rows:
        return []
    cells = ((row.name, row.ours, row.theirs) for row in rows)
    said = differences(verdict) or ("ours and theirs agree",)
    return [
        f"Second opinion: {markdown_safe(asked_tools(verdict))}",
        "",
        "| rules | ours | theirs |",
        "|---|---|---|",
        *("| " + " | ".join(markdown_safe(cell) for cell in row) + " |" for row in cells),
        "",
        *(line for one in said for line in (markdown_safe(one), "")),
    ]
