"""Read and write all JSON files that the harness keeps beside MLPerf logs, with types and bounds checked, whoever
wrote the file."""

import json
import math
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from rules.logs.text import printable, show
from rules.open_file import NotRegularError, TooLargeError, read_regular

MAX_BYTES = 16 << 20
MAX_DEPTH = 32
"""Maximum number of levels of nested arrays and objects in a JSON file; no file of this harness has more than 8."""
VERSION: Final = 1
OTHER_VERSION: Final = "a newer dlrmbench wrote the file, or one before 1.0: read it with that one"

_MAX_INT = 2**63 - 1
Int64 = Annotated[int, Meta(ge=-_MAX_INT, le=_MAX_INT)]
Index = Annotated[int, Meta(ge=0, le=_MAX_INT)]
Count = Annotated[int, Meta(ge=0, le=_MAX_INT)]
PositiveCount = Annotated[int, Meta(ge=1, le=_MAX_INT)]
Amount = Annotated[float, Meta(ge=0)]
PositiveAmount = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

_ERROR = re.compile(r"(?s)(?P<what>.*?)(?: - at (?:`key` in )?`\$?(?P<path>[^`]*)`)?\Z")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_TYPE = re.compile(r"\b(int|float|str|bool|array|object)\b")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_SIGNS = {
    " | ": " or ",
    " of length >= ": " of length at least ",
    " of length <= ": " of length at most ",
    " >= ": " of at least ",
    " <= ": " of at most ",
    " > ": " above ",
}


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all types of JSON objects in the harness's files: typed members within bounds, immutable."""


class Document(Record, frozen=True, kw_only=True):
    """Base of all types of JSON files of the harness: an object that states its schema version."""

    schema_version: Literal[1] = VERSION


T = TypeVar("T", bound=Record)


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """Reason why a JSON file is not used: the member at fault (empty for the file as a whole), the value found, the
    value expected."""

    path: Path
    member: str
    found: str
    expected: str
    remedy: str | None = None
    """Advice on how to fix the damaged JSON file; None where the file can only be restored from a copy."""

    def __str__(self) -> str:
        member = f"{self.member}: " if self.member else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{printable(str(self.path))}: {member}found {self.found}, expected {self.expected}{remedy}"


class DamageError(ValueError):
    """Error for a JSON file that does not fit its record type: as a whole, or in the value of one member."""

    def __init__(self, member: str, found: str, expected: str, remedy: str | None = None) -> None:
        super().__init__(f"{member}: found {found}, expected {expected}" + (f" ({remedy})" if remedy else ""))
        self.member, self.found, self.expected, self.remedy = member, found, expected, remedy

    def at(self, path: Path) -> Damage:
        """Return the error of an invalid file as a `Damage` of the file at `path`: the member, the value found and
        the value expected."""
        return Damage(path=path, member=self.member, found=self.found, expected=self.expected, remedy=self.remedy)


def decode(path: Path, record_type: type[T], clean: Callable[[Any], Any] | None = None) -> T | Damage:
    """Read a JSON file as a record of `record_type`, or return its damage. The function `clean`, such as one that
    makes texts printable, is applied to the JSON value before types are checked."""
    try:
        content = parse_object(_read(path))
        return convert(content if clean is None else clean(content), record_type)
    except DamageError as damage:
        return damage.at(path)


def read_object(path: Path) -> dict[str, Any] | Damage:
    """Read a JSON file of any content as an object of finite numbers, not nested too deeply and with no key given
    twice; return its damage otherwise."""
    try:
        return parse_object(_read(path))
    except DamageError as damage:
        return damage.at(path)


def convert(content: dict[str, Any], record_type: type[T]) -> T:
    """Convert a JSON object to a record of `record_type`. Raises DamageError where a member's value is not
    allowed."""
    if issubclass(record_type, Document):
        _refuse_other_versions(content)
    try:
        return msgspec.convert(content, record_type)
    except msgspec.ValidationError as error:
        raise _explain(str(error), content, record_type) from None
    except UnicodeEncodeError:
        raise _half_character(content) from None
    except RecursionError:
        raise DamageError("", "deeply nested values", f"at most {MAX_DEPTH} levels") from None


def encode(record: Record) -> str:
    """Return a record as JSON text. Raises ValueError where a number is not finite."""
    return json.dumps(msgspec.to_builtins(record, enc_hook=str), indent=1, allow_nan=False) + "\n"


def json_schema(record_type: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of files that this harness writes for a record type. A member is
    optional if its default is msgspec's UNSET; all other members are required, whether they have a default or not.
    Members that the type does not have are forbidden."""
    schema = in_order(msgspec.json.schema(record_type))
    for definition in schema["$defs"].values():
        members, always = definition["properties"], definition.get("required", ())
        written = [name for name in members if name in always or "default" in members[name]]
        for member in members.values():
            member.pop("default", None)
        definition |= {"required": written, "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def in_order(schema: Any) -> Any:
    """Return a JSON Schema that msgspec made, with its parts in a fixed order: enumerations, which msgspec keeps in
    sets, are sorted, and tuples become lists."""
    if isinstance(schema, list | tuple):
        return [in_order(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: sorted(part, key=str) if key == "enum" else in_order(part) for key, part in schema.items()}


def require(condition: bool, member: str, value: object, expected: str) -> None:
    """Raise DamageError, which names the member, its value and the value expected, unless `condition` is true."""
    if not condition:
        raise DamageError(member, show(value), expected)


def _read(path: Path) -> bytes:
    """Return a JSON file's bytes. Raises DamageError for a missing or unreadable file, and, without opening them, for
    FIFOs, devices and files above MAX_BYTES."""
    try:
        return read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise DamageError("", "no file", "a JSON file") from None
    except NotRegularError:
        raise DamageError("", "something that is no regular file", "a JSON file") from None
    except TooLargeError as error:
        raise DamageError("", str(error), f"at most {MAX_BYTES:,} bytes") from None
    except (OSError, ValueError) as error:
        raise DamageError("", show(str(error)), "a file that can be read") from None


class _Twice(dict[str, Any]):
    """JSON object in which a key was given twice."""


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse bytes as a JSON object of finite numbers, not nested too deeply and with no key given twice. Raises
    DamageError."""
    if (usual := _parse_usual(data)) is not None:
        return usual

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(found)
        return content if len(content) == len(found) else _Twice(found)

    try:
        content = json.loads(data.decode("utf-8"), object_pairs_hook=pairs)
    except UnicodeDecodeError as error:
        raise DamageError("", f"byte {error.object[error.start]:#04x} at byte {error.start}", "UTF-8") from None
    except RecursionError:
        raise DamageError("", "deeply nested values", f"at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise DamageError("", printable(str(error))[:120], "JSON") from None
    if not isinstance(content, dict):
        raise DamageError("", show(content), "a JSON object")
    _refuse_odd(content)
    return content


def _parse_usual(data: bytes) -> dict[str, Any] | None:
    """Parse the bytes of a well-formed JSON object with msgspec. This takes a fifth of the time of the slow parser,
    which reports defects. Return None if the bytes may hold a defect such as a repeated key; the slow parser then has
    to decide.

    A repeated key is found by counting colons: decoding drops the repetition, so the object has fewer colons when it
    is encoded again. The count is not reliable for texts with escapes, so these are left to the slow parser.
    """
    if b"\\" in data:
        return None
    try:
        content = msgspec.json.decode(data)
        if type(content) is not dict or msgspec.json.encode(content).count(b":") != data.count(b":"):
            return None
    except (ValueError, OverflowError, RecursionError):
        return None
    return content if _is_shallow(content) else None


def _is_shallow(content: dict[str, Any]) -> bool:
    """Return whether no value of a JSON object is nested deeper than MAX_DEPTH."""
    level: list[dict[str, Any] | list[Any]] = [content]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return True
    return False


def _refuse_odd(content: dict[str, Any]) -> None:
    """Raise DamageError where a JSON object has a repeated key, a number that JSON or a double cannot represent, or
    nesting deeper than MAX_DEPTH."""
    waiting: list[tuple[str, int, Any]] = [("", 0, content)]
    while waiting:
        member, depth, value = waiting.pop()
        if isinstance(value, _Twice):
            raise DamageError(member, "a key that is given more than once", "each key once")
        if isinstance(value, float) and not math.isfinite(value):
            raise DamageError(member, str(value), "a finite number")
        if isinstance(value, dict | list):
            if depth == MAX_DEPTH:
                raise DamageError(member, "deeply nested values", f"at most {MAX_DEPTH} levels")
            waiting += [(name, depth + 1, inner) for name, inner in _children(member, value)]


def _children(member: str, value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        return ((f"{member}[{index}]", inner) for index, inner in enumerate(value))
    return ((_join(member, key), inner) for key, inner in value.items())


def _join(member: str, key: str) -> str:
    if not (key.isidentifier() and len(key) < 80):
        return f"{member}[{show(key)}]"
    return f"{member}.{key}" if member else key


def _half_character(content: dict[str, Any]) -> DamageError:
    """Return the error for the first member of a JSON object whose text holds a lone surrogate (half of a UTF-16
    pair)."""
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        member, value = waiting.pop()
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
            return DamageError(member, show(value), "text of whole characters")
        waiting += _children(member, value) if isinstance(value, dict | list) else ()
    return DamageError("", "half a character", "text of whole characters")


def _refuse_other_versions(content: dict[str, Any]) -> None:
    if "schema_version" not in content:
        raise DamageError("schema_version", "nothing", str(VERSION))
    version: Any = content["schema_version"]
    require(type(version) is int and version >= 1, "schema_version", version, str(VERSION))
    if version != VERSION:
        raise DamageError("schema_version", show(version), str(VERSION), OTHER_VERSION)


def _explain(error: str, content: Any, record_type: type[Record]) -> DamageError:
    """Return msgspec's message about an invalid JSON value as a DamageError, with the member's full name and the
    value found there."""
    match = _ERROR.match(error)
    assert match is not None
    what = match["what"]
    member, value = "", content
    annotation: Any = record_type
    for step in _STEP.finditer(match["path"] or ""):
        member, value, annotation = _descend(member, value, annotation, step)
    if (missing := _MISSING.match(what)) is not None:
        return DamageError(_join(member, missing["name"]), "nothing", "a value: the member is missing")
    if (unknown := _UNKNOWN.match(what)) is not None:
        return DamageError(_join(member, unknown["name"]), show(value[unknown["name"]]), "no such member")
    if what.startswith("Invalid enum value"):
        options = [show(option) for literal in _parts(annotation, Literal) for option in get_args(literal)]
        return DamageError(member, show(value), " or ".join(options))
    return DamageError(member, show(value), say_expected(what))


def say_expected(error: str) -> str:
    """Return in words the type or bound that msgspec's error message expected: "Expected `int` >= 1, got `str`" gives
    "a whole number of at least 1"."""
    what, pattern, regex = error.partition(", got ")[0].partition(" - at ")[0].partition(" matching regex ")
    words = _TYPE.sub(lambda name: _WORDS[name[1]], what.removeprefix("Expected ").replace("`", ""))
    for sign, word in _SIGNS.items():
        words = words.replace(sign, word)
    return printable(words + pattern + regex)


def _descend(member: str, value: Any, annotation: Any, step: re.Match[str]) -> tuple[str, Any, Any]:
    """Follow one step of the path to an invalid value, as msgspec's error message gives it. Return the name, the
    value and the type annotation of the member there. The path does not tell a mapping's keys apart, so in a mapping
    the first invalid entry is taken."""
    if (name := step["name"]) is not None:
        hints = next(
            (
                {field.encode_name: field.type for field in msgspec.structs.fields(part)}
                for part in _parts(annotation, msgspec.Struct)
            ),
            {},
        )
        return _join(member, name), value.get(name), hints.get(name, Any)
    if step["index"] != "...":
        index = int(step["index"])
        inner = [argument for part in _parts(annotation, tuple) for argument in get_args(part) if argument is not ...]
        return f"{member}[{index}]", value[index], inner[min(index, len(inner) - 1)] if inner else Any
    key_type, entry_type = next((get_args(part) for part in _parts(annotation, dict)), (Any, Any))
    for key, entry in value.items():
        try:
            msgspec.convert(key, key_type)
        except msgspec.ValidationError:
            return member, key, key_type
        try:
            msgspec.convert(entry, entry_type)
        except msgspec.ValidationError:
            return _join(member, key), entry, entry_type
    return member, value, entry_type


def _parts(annotation: Any, kind: Any) -> list[Any]:
    """Return those alternatives of a type annotation (such as the parts of a union) that are of one kind of type: a
    struct, tuple[...], dict[...] or Literal[...]."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _parts(get_args(annotation)[0], kind)
    if origin in (Union, types.UnionType):
        return [part for each in get_args(annotation) for part in _parts(each, kind)]
    if kind is msgspec.Struct:
        return [annotation] if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) else []
    return [annotation] if origin is kind else []
