"""Records: every file beside the logs is read by its type, and whatever else it holds is one finding."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import jsonschema
import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_strategy import records
from records_builder import (
    SETS,
    experiment_content,
    quality_content,
    quality_process,
)
from seams import find_seams

from rules.extensions import load_place
from rules.records import codec
from rules.records.codec import Damage, DamageError, Document, Record, convert, decode, encode, json_schema
from rules.records.experiment import ExperimentRecord
from rules.records.files import RECORDS
from rules.records.kinds import CORE_PLACES, PLACES, find_record_type, is_in_processes, is_logged
from rules.records.measured.quality import QualityRecord
from rules.records.measured.throughput import ThroughputRecord
from rules.records.profile import ProfileRecord
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord
from rules.records.system import SystemRecord

FILES = {
    RunSetRecord: "runs/extra/run_set.json",
    RunRecord: "two_ranks/extra/run_0/attempt_0/run.json",
    ThroughputRecord: "throughput_sweep/01-global_batch_size-128/extra/throughput.json",
    ProfileRecord: "throughput_sweep/01-global_batch_size-128/extra/profile.json",
    SystemRecord: "runs/systems/1x-amd-epyc_torch-2.13.0.json",
}
MADE = {
    QualityRecord: lambda: quality_content([quality_process()]),
    ExperimentRecord: experiment_content,
    **{load_place(record): load_place(make) for record, make in find_seams("RECORDS").items()},
}
"""Files that are built, and not stored."""
TYPES = [*FILES, *MADE]
LARGE = (RunRecord, RunSetRecord)
"""Records of which drawing some takes long."""
WRONG: tuple[Any, ...] = ({"zz": 1}, [[]], "?", True, None, -1.5)
"""A value of each JSON type; where one is right, it is left out."""


def content_of(record_type: type[Record]) -> dict[str, Any]:
    """An example of a file of the type."""
    return copy.deepcopy(_content_of(record_type))


@cache
def _content_of(record_type: type[Record]) -> dict[str, Any]:
    if (make := MADE.get(record_type)) is not None:
        record: Any = convert(make(), record_type)
    else:
        record = decode(SETS / FILES[record_type], record_type)
    assert not isinstance(record, Damage), record
    return json.loads(encode(record))  # type: ignore[no-any-return]


@cache
def validator(record_type: type[Record]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema(record_type))


def read(tmp_path: Path, text: str | bytes, record_type: type[Record] = RunRecord) -> Record | Damage:
    path = tmp_path / "file.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return decode(path, record_type)


def damage(tmp_path: Path, text: str | bytes, record_type: type[Record] = RunRecord) -> tuple[str, str, str]:
    found = read(tmp_path, text, record_type)
    assert isinstance(found, Damage), found
    assert found.path == tmp_path / "file.json"
    return found.member, found.found, found.expected


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every member and element at any depth."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield (*path, key)
        yield from places(entry, (*path, key))


def put(content: Any, path: tuple[str | int, ...], value: Any) -> None:
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


def spelled(path: tuple[str | int, ...]) -> str:
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier():
            text += f".{key}" if text else key
        else:
            text += f"[{json.dumps(key)}]"
    return text


# An entry of throughput.json beside it is no file of its own: a resumed sweep measures it again.
STORED = sorted(path for path in SETS.rglob("*.json") if path.name != "measured.json")


@pytest.mark.slow
@pytest.mark.parametrize("path", STORED, ids=lambda path: str(path.relative_to(SETS)))
def test_a_file_that_is_read_is_written_as_it_was(path: Path, tmp_path: Path) -> None:
    record_type = SystemRecord if path.parent.name == "systems" else RECORDS[path.stem]
    record = decode(path, record_type)
    assert isinstance(record, record_type)
    assert read(tmp_path, encode(record), record_type) == record
    jsonschema.validate(json.loads(encode(record)), json_schema(record_type))
    before, after = json.loads(path.read_text()), json.loads(encode(record))
    assert without_gained(after, before) == before, "what it gained later is left out"


def without_gained(after: Any, before: Any) -> Any:
    """What a value has of the members, at any depth, that it had before."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {name: without_gained(after[name], before[name]) for name in before if name in after}
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [without_gained(*each) for each in zip(after, before, strict=True)]
    return after


@pytest.mark.parametrize("record_type", [kind for kind in TYPES if issubclass(kind, Document)])
def test_another_version_says_so_and_a_version_that_is_none_too(record_type: type[Record], tmp_path: Path) -> None:
    content = content_of(record_type)
    why = "a newer dlrmbench wrote the file, or one before 1.0: read it with that one"
    for version in (2, 3):
        other = read(tmp_path, json.dumps(content | {"schema_version": version}), record_type)
        assert str(other) == f"{tmp_path / 'file.json'}: schema_version: found {version}, expected 1 ({why})"
    for wrong in (0, -1, "1", True, 1.0, None):
        member, found, _ = damage(tmp_path, json.dumps(content | {"schema_version": wrong}), record_type)
        assert (member, found) == ("schema_version", json.dumps(wrong))
    del content["schema_version"]
    assert damage(tmp_path, json.dumps(content), record_type)[:2] == ("schema_version", "nothing")


@pytest.mark.parametrize("record_type", TYPES)
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_wrong_value_at_any_depth_is_one_finding_that_names_the_member(
    record_type: type[Record], data: st.DataObject, tmp_path: Path
) -> None:
    content = content_of(record_type)
    path = data.draw(st.sampled_from([path for path in places(content) if path != ("schema_version",)]))
    wrong = data.draw(st.sampled_from(WRONG))
    changed = copy.deepcopy(content)
    put(changed, path, wrong)
    schema_says = validator(record_type).is_valid(changed)
    found = read(tmp_path, json.dumps(changed), record_type)
    assert isinstance(found, Damage) != schema_says, (path, wrong, found)
    if isinstance(found, Damage) and not isinstance(wrong, dict | list):
        assert (found.member, found.found) == (spelled(path), json.dumps(wrong))
    if isinstance(found, Damage):
        assert found.member.startswith(spelled(path)) and found.expected and str(found).count("\n") == 0


@pytest.mark.parametrize("record_type", TYPES)
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_missing_member_is_named_and_an_unknown_one_is_ignored(
    record_type: type[Record], data: st.DataObject, tmp_path: Path
) -> None:
    content = content_of(record_type)
    objects = [path for path in places(content) if isinstance(at(content, path), dict)]
    path = data.draw(st.sampled_from([(), *objects]))
    changed = copy.deepcopy(content)
    at(changed, path)["a member of a later version"] = [1]
    names = [name for name in at(content, path) if name != "schema_version"]
    if (struct := struct_at(record_type, path)) is not None:
        assert not isinstance(read(tmp_path, json.dumps(changed), record_type), Damage)
        name = data.draw(st.sampled_from(names))
        del at(changed, path)[name]
        found = read(tmp_path, json.dumps(changed), record_type)
        (needed,) = (field.required for field in msgspec.structs.fields(struct) if field.encode_name == name)
        assert isinstance(found, Damage) == needed, name
        if isinstance(found, Damage):
            assert (found.member, found.found) == (spelled((*path, name)), "nothing")


def at(content: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def struct_at(record_type: Any, path: tuple[str | int, ...]) -> type[msgspec.Struct] | None:
    """Find the type that names the members of the object at `path`, if one does."""
    if get_origin(record_type) is Annotated:
        return struct_at(get_args(record_type)[0], path)
    if not isinstance(record_type, type) or not issubclass(record_type, msgspec.Struct):
        options = [
            part
            for part in get_args(record_type)
            if part not in (type(None), Ellipsis, str) and get_origin(part) is not str
        ]
        is_list = get_origin(record_type) in (tuple, dict)
        if not options or (is_list and not path):
            return None
        return struct_at(options[-1], path[1:] if is_list else path)
    if not path:
        return record_type
    return struct_at({f.encode_name: f.type for f in msgspec.structs.fields(record_type)}[str(path[0])], path[1:])


def test_numbers_beyond_what_a_type_holds_are_findings(tmp_path: Path) -> None:
    content = content_of(RunRecord)
    for huge in (2**63, 10**400):
        member, _, expected = damage(tmp_path, json.dumps(content | {"peak_rss_bytes": huge}))
        assert (member, expected.startswith("a whole number of at most ")) == ("peak_rss_bytes", True)
    content["blocks"][0]["duration_s"] = 10**400
    assert damage(tmp_path, json.dumps(content))[::2] == ("blocks[0].duration_s", "Number out of range")


def test_a_finding_is_safe_to_print(tmp_path: Path) -> None:
    content = content_of(RunSetRecord) | {"division": "\x1b[2J\u202eopen"}
    found = read(tmp_path, json.dumps(content), RunSetRecord)
    assert str(found).isprintable() and "division" in str(found) and '"closed" or "open"' in str(found)
    content = content_of(RunSetRecord)
    content["config"]["\x1b]0;"] = {"value": 1}
    found = read(tmp_path, json.dumps(content), RunSetRecord)
    assert str(found).isprintable() and "config" in str(found) and found.expected.startswith("a value")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "record_type",
    [pytest.param(each, marks=[pytest.mark.slow] if each in LARGE else []) for each in TYPES],
)
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_a_record_that_can_be_built_reads_back_as_itself(record_type: type[Record], data: st.DataObject) -> None:
    record = data.draw(records(record_type))
    text = encode(record)
    assert convert(json.loads(text), record_type) == record
    validator(record_type).validate(json.loads(text))


def test_a_kind_that_is_not_known_is_neither_logged_nor_in_processes() -> None:
    known = {name: (is_logged(name), is_in_processes(name)) for name in (*CORE_PLACES, "levitation")}
    assert known == {
        "training": (True, False),
        "throughput": (False, True),
        "profile": (False, False),
        "quality": (False, True),
        "levitation": (False, False),
    }


def test_a_record_with_a_number_that_is_none_is_not_written() -> None:
    record = msgspec.structs.replace(convert(content_of(RunSetRecord), RunSetRecord), timeout_s=float("nan"))
    with pytest.raises(ValueError, match="nan"):
        encode(record)


def test_bounds_reach_the_schema() -> None:
    run = json_schema(RunRecord)["$defs"]["BlockRecord"]["properties"]
    assert (run["first_sample"]["minimum"], run["duration_s"]["minimum"]) == (0, 0)
    assert json_schema(ThroughputRecord)["$defs"]["ThroughputRecord"]["properties"]["processes"]["minItems"] == 1
    with pytest.raises(DamageError, match="closed"):
        convert(content_of(RunSetRecord) | {"division": "half"}, RunSetRecord)


def test_every_kind_says_what_it_measures_and_its_columns_are_members() -> None:
    for name in PLACES:
        record_type = find_record_type(name)
        if name == "training":
            record: Any = decode(SETS / "runs/extra/run_0/attempt_0/run.json", record_type)
        else:
            record = convert(content_of(record_type), record_type)
        assert not isinstance(record, Damage)
        repetitions = record.repetitions()
        assert len(repetitions) == (5 if name == "throughput" else 1)
        for repetition in repetitions:
            assert getattr(repetition, record_type.MEASURE.value) > 0
            for column in record_type.MEASURE.columns:
                assert getattr(repetition, column.member) is not None
        for setting in record_type.ASKED:
            assert setting == "benchmark" or hasattr(record, setting) or hasattr(repetitions[0], setting)
        for setting, words in record_type.MUST_AGREE.items():
            assert setting in record_type.ASKED or hasattr(repetitions[0], setting)
            assert words.count("{}") == 2


def test_no_file_of_ours_is_near_the_bounds_of_what_is_read() -> None:
    sizes = [path.stat().st_size for path in SETS.rglob("*.json")]
    assert max(sizes) * 100 < codec.MAX_BYTES
