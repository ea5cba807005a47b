"""Text of logs as text of other forms: cells of Markdown tables and of spreadsheets."""

from harness.cli.table import printable


def markdown_safe(text: str) -> str:
    """Text of a log as text of a table cell."""
    escaped = printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return escaped.replace("`", "\\`").replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")


def spreadsheet_safe(value: object) -> object:
    """Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t"):
        return "'" + value
    return "" if value is None else value
