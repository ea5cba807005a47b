"""Makes the output on two configurations' differing settings as blocks: by section, then the number of identical
settings."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from reports.comparison.records import DifferenceDocument, Setting, SettingRow
from reports.document.blocks import Block, Fact, Facts, Prose, Table, text_table


def difference_blocks(difference: DifferenceDocument, *, with_identical: bool) -> tuple[Block, ...]:
    """Return blocks with the names of two configurations, their differing settings, and the numbers of differing and
    of identical settings; with `with_identical`, also the identical ones."""
    summary = f"{len(difference.differing)} differ, {len(difference.identical)} identical"
    is_hidden = difference.identical and not with_identical
    return (
        Facts(facts=(Fact(name="A", value=difference.a), Fact(name="B", value=difference.b))),
        *_tables(difference.differing),
        Prose(text=summary + (" (-v lists them)" if is_hidden else "")),
        *_missing_sections(difference),
        *(_tables(difference.identical) if with_identical else ()),
    )


def _tables(rows: Sequence[SettingRow]) -> Iterator[Table]:
    """Yield a table of settings for each section of the two configurations. Where all values of one configuration in
    a section have the same source, such as a file, the source is in the column's heading, else beside each value."""
    for section, grouped in groupby(rows, key=lambda row: row.section):
        of_section = list(grouped)
        (head_a, a), (head_b, b) = (
            _side("A", [row.a for row in of_section]),
            _side("B", [row.b for row in of_section]),
        )
        yield text_table((section, head_a, head_b), zip([row.name for row in of_section], a, b, strict=True))


def _side(side: str, settings: Sequence[Setting | None]) -> tuple[str, list[str]]:
    """Return one configuration's column of a table of settings: its heading and its values, with their sources."""
    sources = {setting.source for setting in settings if setting is not None}
    is_common = len(sources) == 1 and len(settings) > 1
    values = [
        "(missing)" if s is None else (s.value or "(none)") + ("" if is_common else f"  [{s.source}]")
        for s in settings
    ]
    return f"{side}  [{sources.pop()}]" if is_common else side, values


def _missing_sections(difference: DifferenceDocument) -> Iterator[Prose]:
    """Yield one sentence for each configuration of which some sections of settings are not known, with the names of
    these sections."""
    for side in ("a", "b"):
        sections = [missing.section for missing in difference.missing if missing.side == side]
        if sections:
            yield Prose(text=f"{side.upper()} has no settings of {', '.join(sections)}; not compared.")
