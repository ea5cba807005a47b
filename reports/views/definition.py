"""Makes the output of benchmark definitions as blocks: the list of all benchmarks, and one definition with derived
values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reports.document.blocks import Block, Heading, Prose, text_table
from reports.text.formatting import MISSING


def list_blocks(records: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    """Return a pair: a table with one row per benchmark or workload, made from the summaries of
    `harness.config.describe`, and a sentence that names older versions of these benchmarks."""
    columns = {
        "name": "name",
        "status": "status",
        "target": "quality_target",
        "runs": "num_runs",
        "data": "data_kind",
        "title": "title",
    }
    rows = [[record[member] for member in columns.values()] for record in records]
    older = [f"{record['name']}@{version}" for record in records for version in record["older_versions"]]
    table = text_table(tuple(columns), rows, numbers=("target", "runs"))
    if not older:
        return (table,)
    return table, Prose(text=f"Older versions, which are still read and run by these names: {', '.join(older)}.")


def definition_blocks(content: Mapping[str, Any]) -> tuple[Block, ...]:
    """Return the blocks of a benchmark definition, as described by `harness.config.describe`: its texts, then a table
    per section."""
    texts = [content["title"], content["description"], *content["notes"], f"sha256 {content['definition_sha256']}"]
    if content["rounds"]:
        texts.append(f"MLPerf Training rounds {', '.join(content['rounds'])}")
    train, closed = content["train"], content["closed"]
    rows: list[tuple[str, str, str]] = [(key, _text(value), closed.get(key, MISSING)) for key, value in train.items()]
    rows += [(key, MISSING, rule) for key, rule in closed.items() if key not in train]
    follows = content["status"] != "workload" and content["has_implementation"]
    return (
        Heading(text=f"{content['name']}  version {content['version']}, {content['status']}"),
        *(Prose(text=text) for text in texts if text),
        *(_section(name, content[name]) for name in ("quality", "score", "model", "data") if content[name]),
        Prose(text="Closed division (MLPerf's): same model, data and optimizer for all, and the values below."),
        text_table(("train", "value", "closed division allows"), rows),
        *(_section(name, content[name]) for name in ("runtime", "cadence", "size") if content[name] or follows),
    )


def _section(title: str, table: Mapping[str, Any] | None) -> Block:
    if table is None:
        return Prose(text=f"{title}: known once the data is prepared")
    return text_table((title, "value"), [(key, _text(value)) for key, value in _flat(table) if value is not None])


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        if len(value) > 1 and all(item == value[0] for item in value):
            return f"{len(value)} x {_text(value[0])}"
        return ", ".join(_text(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
