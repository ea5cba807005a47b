"""What measurements of copying show of their own."""

from collections.abc import Sequence

from reports.document.blocks import Block, Prose
from reports.kinds.details import Details
from reports.results.result import Result


def copying_blocks(results: Sequence[Result], id_: str) -> tuple[Block, ...]:
    """Say how the bytes were counted."""
    return (Prose(text="A copied byte is read once and written once, and counted once.", kind="note"),)


DETAILS = Details(blocks=copying_blocks, terms={"Copy rate": "Bytes that are copied in a second."})
