"""Exports and imports result documents as JSON; imported files may be anyone's, so every value is checked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from reports.results.find import brief_label, find_index
from reports.tables.records import DETAIL_TABLES, ReportDocument, SetMember, detail_rows
from reports.text.formatting import distinct_labels, num_bytes, printable
from rules.errors import InputError
from rules.open_file import NotRegularError, TooLargeError, read_regular
from rules.records.codec import OTHER_VERSION, DamageError, convert
from rules.records.rows import Row
from rules.records.study import STUDY_FILE

SCHEMA_VERSION = 1
"""Version of the layout of every document that commands print with --format json, under the key schema_version."""
MAX_FILE_BYTES = 256 << 20
_AnyDocument = TypeVar("_AnyDocument", bound=Row)


def json_text(document: msgspec.Struct) -> str:
    """Return a document of results as indented JSON with a final newline, every number at full precision."""
    text = json.dumps(msgspec.to_builtins(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return "\n".join(line if line.isprintable() else _escape(line) for line in text.split("\n"))


def _escape(line: str) -> str:
    """Return a line of JSON with control characters and invalid Unicode escaped, since file names may hold either."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def is_document(path: Path) -> bool:
    """Return whether a path is an exported JSON file of results, or has the form FILE.json:NAME, which names one
    configuration in such a file; False for the JSON file of a study.

    Raises InputError where the path cannot be read.
    """
    try:
        file = _split(path)[0]
        return file.suffix.lower() == ".json" and file.name != STUDY_FILE and not path.is_dir()
    except PermissionError as error:
        raise InputError(f"{printable(path)}: cannot be read: {error.strerror}.") from None


def _split(path: Path) -> tuple[Path, str | None]:
    """Split FILE.json:NAME into the file and the name of a configuration. The name is None if the text has none, or
    if the whole text is an existing path."""
    file, colon, name = str(path).partition(".json:")
    return (Path(f"{file}.json"), name) if colon and not path.exists() else (path, None)


def read_document(path: Path) -> ReportDocument:
    """Read an exported JSON file of results. For FILE:NAME, return only the configuration whose label is, or
    contains, NAME. Raises InputError if the file is not such an export, or if NAME matches no configuration or
    several."""
    path, name = _split(path)
    document = document_from(_read_json(path, "report"), printable(path))
    if name is None:
        return document
    members = document.configurations
    labels = [member.configuration for member in members]
    names = [brief_label(member.configuration, member.benchmark) for member in members]
    chosen = members[find_index(labels, names, name, f"{printable(path)}:")]
    return msgspec.structs.replace(document, configurations=(chosen,))


def read_printed(path: Path, verb: str, record: type[_AnyDocument]) -> _AnyDocument:
    """Read a JSON document that a command wrote with `--format json`, into the type `record`. `verb` is the command's
    name, for messages.

    Raises InputError if the document is not valid; it names the file, the member, what was found and what was
    expected.
    """
    content, source = _read_json(path, verb), printable(path)
    if not isinstance(content, dict):
        _refuse(source, "not an object", verb)
    version = content.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        _refuse(source, _other_version(version), verb)
    try:
        return convert(content, record)
    except DamageError as damage:
        _refuse(source, str(damage), verb)


def _read_json(path: Path, verb: str) -> Any:
    source = printable(path)
    try:
        return msgspec.json.decode(read_regular(path, MAX_FILE_BYTES))
    except (NotRegularError, TooLargeError):
        _refuse(source, f"not a regular file of at most {num_bytes(MAX_FILE_BYTES)}", verb)
    except FileNotFoundError:
        raise InputError(f"{source}: no such file.") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        _refuse(source, f"not readable JSON: {printable(error, 120)}", verb)


def _other_version(version: object) -> str:
    wrote = f" ({OTHER_VERSION})" if type(version) is int and version > SCHEMA_VERSION else ""
    return f"schema_version is {printable(version, 40)}, this version reads {SCHEMA_VERSION}{wrote}"


def document_from(content: Any, source: str) -> ReportDocument:
    """Convert the parsed JSON of an export to a document of results; fields that an older export lacks are missing in
    the document.

    Raises InputError if a field is not valid; it names `source`, the field, what was found and what was expected.
    """
    if not isinstance(content, dict) or "configurations" not in content:
        _refuse(source, "not a JSON export of 'dlrmbench report' (no member 'configurations')")
    if content.get("schema_version") != SCHEMA_VERSION:
        _refuse(source, _other_version(content.get("schema_version")))
    try:
        document = convert(content, ReportDocument)
    except DamageError as damage:
        _refuse(source, str(damage))
    for problem in _problems(document):
        _refuse(source, problem)
    return document


def _problems(document: ReportDocument) -> Iterator[str]:
    """Yield the errors of an exported document whose types are right: repeated labels or runs, lists of unequal
    lengths, qualities out of range."""
    labels: set[str] = set()
    for index, configuration in enumerate(document.configurations):
        place = f"configurations[{index}]"
        if configuration.configuration in labels:
            yield f"{place}.configuration is given twice"
        labels.add(configuration.configuration)
        known: set[tuple[str, str]] = set()
        for number, run in enumerate(configuration.runs):
            if (run.run, run.path) in known:
                yield f"{place}.runs[{number}]: run and path are given twice"
            known.add((run.run, run.path))
            lists = msgspec.structs.astuple(run.evaluations)
            if len({len(values) for values in lists}) > 1:
                yield f"{place}.runs[{number}].evaluations has lists of different lengths"
        for name, quality in _qualities(configuration) if configuration.is_defined else ():
            if quality is not None and not 0 <= quality <= 1:
                yield f"{place}.{name}: found {quality}, expected a number from 0 to 1 or null"


def _qualities(configuration: SetMember) -> Iterator[tuple[str, float | None]]:
    yield "final_quality", configuration.final_quality
    for number, run in enumerate(configuration.runs):
        yield f"runs[{number}].final_quality", run.final_quality
        for index, quality in enumerate(run.evaluations.quality):
            yield f"runs[{number}].evaluations.quality[{index}]", quality


def join_documents(parts: Sequence[ReportDocument]) -> ReportDocument:
    """Return one document with the rows of all documents in `parts`. If two documents use the same label for a
    configuration, the label from the later document gets a number: 'base (2)'."""
    labels = [list(dict.fromkeys(row.configuration for row in _rows(part))) for part in parts]
    distinct = iter(distinct_labels(label for part in labels for label in part))
    renamed = [{label: next(distinct) for label in part} for part in labels]
    named = list(zip(parts, renamed, strict=True))
    details: dict[str, Any] = {
        name: tuple(_named(row, names) for part, names in named for row in detail_rows(part)[name])
        for name in DETAIL_TABLES
    }
    return ReportDocument(
        configurations=tuple(_named(row, names) for part, names in named for row in part.configurations),
        measurements=tuple(_named(row, names) for part, names in named for row in part.measurements),
        **details,
    )


def _rows(part: ReportDocument) -> Iterator[Any]:
    yield from part.configurations
    yield from part.measurements
    for rows in detail_rows(part).values():
        yield from rows


def _named(row: Any, names: Mapping[str, str]) -> Any:
    return msgspec.structs.replace(row, configuration=names[row.configuration])


def _refuse(source: str, why: str, verb: str = "report") -> NoReturn:
    or_folder = "a result directory, or " if verb == "report" else ""
    raise InputError(f"{source}: {why}. Give {or_folder}the file that 'dlrmbench {verb} --format json' wrote.")
