"""Makes the page's sections of a study (a set of computed or measured tables): findings, parameters, tables and
checks; every column names the origin of its numbers.

Commands that make a study print the same blocks. Charts, which some kinds of study have, are only on the page.
"""

from reports.document.blocks import Block, Prose
from reports.document.page import PageSection
from reports.kinds.details import details_of
from reports.page.sections.system import NOISE, check_blocks
from reports.parts.load import load_words
from reports.parts.study import split_step, study_grounds, study_table, without_empty_columns
from reports.text.formatting import printable
from rules.records.study import StudyRecord


def study_sections(study: StudyRecord, id_: str, *, has_step: bool = True) -> tuple[PageSection, ...]:
    """Return a page section for each table of a study (a set of computed or measured tables). A section has the
    table's chart if the study's kind defines one. The first section also has the findings, the last one the
    parameters and the checks.

    With `has_step` the findings suggest a next command. Without it they do not, for a page whose head already
    suggests one.
    """
    details = details_of(study.kind)
    made, draw = [], details.chart
    findings = [finding if has_step else split_step(finding)[0] for finding in study.findings]
    num_leading = len(findings) if details.num_leading is None else details.num_leading
    leading, others = (list(filter(None, part)) for part in (findings[:num_leading], findings[num_leading:]))
    for index, table in enumerate(study.tables):
        place = f"{id_}-{index + 1}"
        chart = None if draw is None else draw(study, table, f"{place}-chart")
        is_first, is_last = index == 0, index == len(study.tables) - 1
        blocks: tuple[Block, ...] = (
            *(Prose(text=printable(finding), kind="lead") for finding in leading if is_first),
            *(() if chart is None else (chart,)),
            study_table(without_empty_columns(table)),
            *(Prose(text=printable(finding)) for finding in others if is_first),
            *(study_grounds(study) if is_last else ()),
        )
        name = printable(table.title, 100)
        made.append(PageSection(id=place, heading=name, name=name, blocks=blocks))
    return (*made, *_noise(study, id_))


def _noise(study: StudyRecord, id_: str) -> tuple[PageSection, ...]:
    """Return the section on noise while a study (a set of computed or measured tables) was measured; none for a study
    that measured nothing, or has no record of noise."""
    blocks = check_blocks(study.preflight, id_, before="the measurement") if study.preflight else ()
    if words := load_words(study.loads):
        blocks = (*blocks, Prose(text=f"Measured {words}."))
    return (PageSection(id=f"{id_}-noise", heading=NOISE, name="Noise", blocks=blocks),) if blocks else ()
