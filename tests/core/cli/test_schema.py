"""schema: one name for each JSON Schema and each page that is made from the code."""

import json
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints

import jsonschema
import pytest

from harness.cli.schema import GROUPS, PAGES, list_names
from harness.config.schema import definition_schema
from reference_models.registry import MODELS
from reports.render.terminal import display_width
from reports.schemas import DOCUMENTS
from rules.records.codec import json_schema
from rules.records.files import RECORDS

CLI = Callable[..., tuple[int, str, str]]
NAMES = list_names()
LEFT_OUT = {"beside"}
"""Members that are in a file only where their command asks for them; all others always are."""


def test_each_name_stands_for_one_thing_and_says_by_its_ending_what_that_is() -> None:
    assert len(set(NAMES)) == len(NAMES)
    endings = {"document": len(DOCUMENTS), "definition": len(MODELS), "page": len(PAGES)}
    for ending, number in endings.items():
        assert sum(name.endswith(f"_{ending}") for name in NAMES) == number
    assert {name for name in NAMES if name.rpartition("_")[2] not in endings} == set(RECORDS)


def test_the_list_names_all_with_a_line_each_in_80_columns(command: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = command("schema")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(display_width, lines)) <= 80
    assert len(out.split("\n\n")) == len(GROUPS)
    described = [match[1] for line in lines if (match := re.match(r"(\w+)  +\S", line)) and match[1] != "name"]
    assert described == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_printed(command: CLI, name: str) -> None:
    code, out, err = command("schema", name)
    assert (code, err, out[-1]) == (0, "", "\n")
    if name in PAGES:
        return  # extensions add to them: tests/whole/test_docs.py holds them to the pages that are kept
    printed = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed.pop("$id") == f"{name}.schema.json"
    what, _, ending = name.rpartition("_")
    if ending == "definition":
        assert printed == definition_schema(what)
        return
    record = DOCUMENTS[what] if ending == "document" else RECORDS[name]
    assert printed == json_schema(record)
    for definition in printed["$defs"].values():
        assert set(definition["properties"]) - set(definition["required"]) <= LEFT_OUT
        assert definition["additionalProperties"] is False


def test_a_file_and_a_document_of_the_same_command_differ(command: CLI) -> None:
    file, document = (json.loads(command("schema", name)[1])["$ref"] for name in ("run", "run_document"))
    assert (file, document) == ("#/$defs/RunRecord", "#/$defs/RunDocument")


@pytest.mark.parametrize(
    ("name", "said"),
    [("runset", "Did you mean 'run_set'?"), ("rule_page", "Did you mean 'rules_page'?"), ("x", "dlrm_definition")],
)
def test_an_unknown_name_is_refused_with_a_suggestion(command: CLI, name: str, said: str) -> None:
    code, out, err = command("schema", name)
    assert (code, out) == (2, "")
    assert f"unknown name {name!r}." in err and said in err


def test_models_of_installed_packages_have_definitions_too(monkeypatch: pytest.MonkeyPatch, command: CLI) -> None:
    points = EntryPoints([EntryPoint("other", "reference_models.dlrm.spec:SPEC", "dlrmbench.models")])
    monkeypatch.setattr("reference_models.registry.entry_points", lambda **wanted: points.select(**wanted))
    assert "other_definition" in command("schema")[1]
    code, out, _ = command("schema", "other_definition")
    assert (code, json.loads(out)["$defs"]) == (0, definition_schema("dlrm")["$defs"])
