"""Makes the output on this machine as blocks: the fields of an MLPerf system description with their sources, and
checks for noise."""

from collections.abc import Mapping, Sequence

from reports.document.blocks import Block, Cell, Heading, Part, Prose, text_table


def system_blocks(fields: Mapping[str, str], provenance: Mapping[str, str]) -> tuple[Block, ...]:
    """Return a table with one row per field of an MLPerf system description, with the source of its value."""
    return (text_table(("field", "value", "source"), [(key, fields[key], provenance[key]) for key in fields]),)


def preflight_blocks(checks: Sequence[Mapping[str, str]]) -> tuple[Block, ...]:
    """Return the results of all checks by `harness.system.preflight`, then the reason and the remedy of each
    warning."""
    rows = [(Cell(text=check["status"], kind=check["status"]), check["name"], check["value"]) for check in checks]
    return (
        text_table(("status", "check", "value"), rows, id_="checks"),
        *(
            Part(
                heading=Heading(text=f"{check['name']}: {check['value']}"),
                blocks=(Prose(text=check["why"]), Prose(text=check["remedy"])),
            )
            for check in checks
            if check["status"] == "warning"
        ),
    )
