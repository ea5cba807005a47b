"""Make the JSON Schema of a benchmark's definition from the records that read the definition."""

from collections.abc import Mapping
from typing import Any

import msgspec

from harness.config.reference import SECTIONS, read_meanings
from reference_models.data.registry import DATA_KINDS, find_data
from reference_models.registry import find_model
from rules.benchmarks.loader import SCHEMA_VERSION, FirstEval
from rules.records.codec import in_order

_RULES = {"type": "object", "description": 'By mllog key: "free", a value, or a table of values or bounds.'}


def definition_schema(model: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of benchmark definitions of one model. Raises ConfigError for an unknown
    model."""
    sections: dict[str, list[type[Any]]] = {}
    for name, _, record in SECTIONS:
        if "." not in name:
            sections.setdefault(name, []).append(record)
    sections["model"] = [find_model(model).section]
    sections["data"] = list(dict.fromkeys(find_data(kind).section for kind in DATA_KINDS))
    kinds = [kind for each in sections.values() for kind in each]
    schemas, records = in_order(msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}"))
    by_kind = dict(zip(kinds, schemas, strict=True))
    meanings = {kind.__name__: read_meanings(kind) for kind in (*kinds, FirstEval)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["schema_version", "benchmark", "model", "data", "train"],
        "properties": {
            "schema_version": {"const": SCHEMA_VERSION},
            "closed": _RULES,
            "open": _RULES,
            **{name: {"anyOf": [by_kind[kind] for kind in each]} for name, each in sections.items()},
        },
        "$defs": {
            name: {**_explain(record, meanings.get(name, {})), "additionalProperties": False}
            for name, record in records.items()
        },
    }


def _explain(record: dict[str, Any], meanings: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema of a section with the meaning of each key as its description, which editors show."""
    explained = {
        name: {**schema, "description": meanings[name]} if name in meanings else schema
        for name, schema in record["properties"].items()
    }
    return {**record, "properties": explained}
