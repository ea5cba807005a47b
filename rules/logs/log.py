"""Parse MLPerf logs of any bytes into records with file and line number.

A record is announced by `:::MLLOG` anywhere in a line (mllog's own format); text without it is output of shells and
launchers, and is skipped. An announced record that cannot be read becomes `UnparsedText`, never an exception. Memory
is bounded whatever the file holds: a record that is too long is not kept, and reading ends at a maximum number of
records, or of bytes in all records. A line ends at \\n or \\r: progress bars write \\r, and the official parser takes
it for an end of line. Line numbers count \\n only; in a file without \\n between lines, they count \\r.
"""

import hashlib
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from rules.errors import InputError, why_no_json
from rules.logs.line import MAX_RECORD_BYTES as MAX_RECORD_BYTES
from rules.logs.line import TOKEN
from rules.logs.line import LogLine as LogLine
from rules.logs.plain import read_plain_line, read_plain_log
from rules.logs.text import printable, show
from rules.open_file import NotRegularError, open_regular

MAX_NUM_RECORDS = 200_000
MAX_RECORD_TEXT_BYTES = 16 << 20
"""Maximum bytes of all records of a log together; what follows them is not read. The longest published logs hold 0.15
MB."""
MAX_LOG_BYTES = 256 << 20
"""Maximum bytes of a log that are read, including text between its records."""
MAX_RECORDS_PER_LINE = 1000
MAX_NUM_UNPARSED = 100
MAX_DEPTH = 16
_EXCERPT_CHARS = 120
_AT_ONCE_BYTES = 4 << 20
_PREFIX_BYTES = 32
_MAX_WHOLE = 2.0**63
_EXACT = 2**53
_ANNOUNCED = re.compile(rb":::MLLOG(?=[ \t{])")
_BEGINNINGS = (b":::MLLOG ", b":::MLLOG\t", b":::MLLOG{")
_SPACE = re.compile(r"[ \t]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RANK = re.compile(rb"[ \t]*\[?(\d{1,6})\]?:?[ \t]*\Z")
FOUND = "; found "
"""Separator, in an entry of `LogLine.problems`, between the description of a record's defect and the value that was
found."""
_FOREIGN = {
    b"\xff\xfe": "UTF-16; convert it to UTF-8",
    b"\xfe\xff": "UTF-16; convert it to UTF-8",
    b"\x1f\x8b": "compressed (gzip); unpack it",
    b"BZh": "compressed (bzip2); unpack it",
    b"\xfd7zXZ": "compressed (xz); unpack it",
    b"\x28\xb5\x2f\xfd": "compressed (zstd); unpack it",
    b"PK\x03\x04": "an archive (zip); unpack it",
}
"""First bytes of files that must be converted or unpacked before they can be read as logs, with the reason and the
remedy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnparsedText:
    """Text in a log that announces a record (:::MLLOG) but cannot be read as one: the place, the reason and an
    excerpt."""

    path: str
    line_num: int
    reason: str
    excerpt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLog:
    """All records of one MLPerf log in file order, and what could not be read.

    `unparsed` holds texts that announce a record (:::MLLOG) but cannot be read, MAX_NUM_UNPARSED of them at most.
    `unread` is the place at which reading the file was given up; None if the whole file was read. `num_unparsed` is
    the number of all unreadable texts up to that place; `unread` counts as one of them.
    """

    path: str
    lines: tuple[LogLine, ...]
    unparsed: tuple[UnparsedText, ...] = ()
    unread: UnparsedText | None = None
    num_unparsed: int = 0
    sha256: str = ""
    num_bytes: int = 0
    by_key: Mapping[str, tuple[LogLine, ...]] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Cache of results derived from the log, by the result's name."""

    def all(self, key: str) -> tuple[LogLine, ...]:
        return self.by_key.get(key, ())

    def first(self, key: str) -> LogLine | None:
        lines = self.all(key)
        return lines[0] if lines else None

    def last(self, key: str) -> LogLine | None:
        lines = self.all(key)
        return lines[-1] if lines else None

    def value(self, key: str) -> Any:
        """Return the value of the log's first record of `key`; None where there is none."""
        line = self.first(key)
        return None if line is None else line.value


def read_log(path: str | Path) -> RunLog:
    """Read one MLPerf log, which may hold any bytes. Raises InputError when `path` is no readable file."""
    path = Path(path)
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}. Give a log, or a directory that holds result_*.txt.")
    try:
        with open_regular(path) as stream:
            data = stream.read(_AT_ONCE_BYTES + 1) if os.fstat(stream.fileno()).st_size <= _AT_ONCE_BYTES else None
            if data is not None and len(data) <= _AT_ONCE_BYTES:
                return parse_bytes(data, str(path))
            stream.seek(0)
            return parse_log(iter(lambda: stream.readline(MAX_RECORD_BYTES), b""), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except NotRegularError:  # it was a regular file a moment ago
        raise InputError(f"{path}: is not a regular file. Give a log.") from None


def parse_bytes(data: bytes, path: str) -> RunLog:
    """Parse the bytes of an MLPerf log. `path` is only the name that records carry; no file is opened."""
    lines = read_plain_log(data, path)
    if lines is not None:
        return _make_log(path, lines, sha256=hashlib.sha256(data).hexdigest(), num_bytes=len(data))
    if _ends_in_returns(data):
        log = parse_bytes(data.replace(b"\r", b"\n"), path)
        return replace(log, sha256=hashlib.sha256(data).hexdigest())
    stream = BytesIO(data)
    whole = stream.readlines()
    if max(map(len, whole), default=0) <= MAX_RECORD_BYTES:
        found, others = _collect(whole, path)
        return _make_log(path, found, **others, sha256=hashlib.sha256(data).hexdigest(), num_bytes=len(data))
    stream.seek(0)
    return parse_log(iter(lambda: stream.readline(MAX_RECORD_BYTES), b""), path)


def _ends_in_returns(data: bytes) -> bool:
    """Return whether a log's lines end with carriage returns only (no newlines), so that editors count lines by
    these."""
    first = data.find(b"\r")
    return first >= 0 and data.find(b"\n", 0, len(data.rstrip(b"\r\n"))) < 0


def parse_log(chunks: Iterable[bytes], path: str) -> RunLog:
    """Parse an MLPerf log from its lines, those longer than MAX_RECORD_BYTES in pieces. `path` is only the name that
    records carry; no file is opened."""
    digest, num_bytes, num_lines, is_cut = hashlib.sha256(), 0, 1, False

    def counted() -> Iterator[bytes]:
        nonlocal num_bytes, num_lines, is_cut
        for chunk in chunks:
            if num_bytes + len(chunk) > MAX_LOG_BYTES:
                is_cut = True
                return
            digest.update(chunk)
            num_bytes += len(chunk)
            num_lines += chunk.endswith(b"\n")
            yield chunk

    lines, found = _collect(counted(), path)
    if is_cut and found.get("unread") is None:
        reason = f"more than {MAX_LOG_BYTES:,} bytes; the rest was not read"
        unread = UnparsedText(path=path, line_num=num_lines, reason=reason, excerpt="")
        found |= {"unread": unread, "num_unparsed": found["num_unparsed"] + 1}
    return _make_log(path, lines, **found, sha256=digest.hexdigest(), num_bytes=num_bytes)


def _make_log(path: str, lines: list[LogLine], **others: Any) -> RunLog:
    by_key: dict[str, list[LogLine]] = defaultdict(list)
    for line in lines:
        by_key[line.key].append(line)
    return RunLog(
        path=path, lines=tuple(lines), by_key={key: tuple(found) for key, found in by_key.items()}, **others
    )


def _collect(chunks: Iterable[bytes], path: str) -> tuple[list[LogLine], dict[str, Any]]:
    """Return the records of a log, and the values of those fields of RunLog that describe text that could not be
    read."""
    lines: list[LogLine] = []
    unparsed: list[UnparsedText] = []
    num_unparsed = 0

    def reject(line_num: int, reason: str, text: bytes) -> None:
        nonlocal num_unparsed
        num_unparsed += 1
        if num_unparsed <= MAX_NUM_UNPARSED:
            unparsed.append(UnparsedText(path=path, line_num=line_num, reason=reason, excerpt=_excerpt(text)))

    num_bytes = 0
    for line_num, text, is_whole, prefix in _announced(chunks):
        num_bytes += len(text)
        if prefix in _FOREIGN:
            reject(line_num, f"the file is {_FOREIGN[prefix]}", text)
        elif not is_whole:
            reject(line_num, f"record longer than {MAX_RECORD_BYTES} bytes", text)
        elif num_bytes > MAX_RECORD_TEXT_BYTES or len(lines) >= MAX_NUM_RECORDS:
            reason = "more records than are read from one log; the rest was not read"
            unread = UnparsedText(path=path, line_num=line_num, reason=reason, excerpt=_excerpt(text))
            return lines, {"unparsed": tuple(unparsed), "unread": unread, "num_unparsed": num_unparsed + 1}
        else:
            rank = int(match[1]) if prefix and (match := _RANK.match(prefix)) else None
            continues = not prefix and bool(lines) and lines[-1].line_num == line_num
            if (plain := read_plain_line(text, path, line_num, rank, continues)) is not None:
                lines.append(plain)
                continue
            for index, (parsed, is_glued) in enumerate(_records(text)):
                if isinstance(parsed, str):
                    reject(line_num, parsed, text)
                else:
                    is_glued = is_glued or (continues and index == 0)
                    lines.append(LogLine(path=path, line_num=line_num, rank=rank, is_glued=is_glued, **parsed))
    return lines, {"unparsed": tuple(unparsed), "num_unparsed": num_unparsed}


def _announced(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool, bytes]]:
    """Yield four values for each line of a log that announces a record (:::MLLOG): the line number, the text from the
    first announcement to the line's end, whether that text is complete, and the text before the announcement.

    If the file begins with bytes that show it is no plain text (UTF-16, compressed), first yield four such values for
    its beginning. A line longer than one chunk is cut at its announcements, so that only its last, unfinished part is
    held in memory.
    """
    line_num, held, begins = 1, b"", True
    for index, chunk in enumerate(chunks):
        if index == 0:
            for mark in _FOREIGN:
                if chunk.startswith(mark):
                    yield line_num, chunk[:_EXCERPT_CHARS], True, mark
        ends = chunk.endswith(b"\n")
        if ends and not held and TOKEN not in chunk:
            line_num, begins = line_num + 1, True
            continue
        if ends and begins and chunk.startswith(_BEGINNINGS):
            yield line_num, chunk, True, b""
            line_num += 1
            continue
        text = held + chunk
        held = b""
        starts = [match.start() for match in _ANNOUNCED.finditer(text)]
        prefix = text[: min(starts[0], _PREFIX_BYTES)] if starts and begins else b""
        if ends or len(chunk) < MAX_RECORD_BYTES:
            if starts:
                is_whole = len(text) - starts[-1] <= 2 * MAX_RECORD_BYTES
                yield line_num, text[starts[0] :], is_whole, prefix
        elif starts:
            if len(starts) > 1:
                yield line_num, text[starts[0] : starts[-1]], True, prefix
            if len(text) - starts[-1] > MAX_RECORD_BYTES:
                yield line_num, text[starts[-1] :][:_EXCERPT_CHARS], False, b""
            else:
                held = text[starts[-1] :]
        else:
            held = text[-len(TOKEN) :]
        begins = ends
        if ends:
            line_num += 1
    if held.startswith(TOKEN):
        yield line_num, held, True, b""


def _records(text: bytes) -> Iterator[tuple[dict[str, Any] | str, bool]]:
    """Yield the records of one line of a log that begins with an announcement (:::MLLOG). For each record, yield its
    fields, or the reason why it cannot be read; and whether another record precedes it in the line."""
    try:
        whole = text.decode("utf-8")
    except UnicodeDecodeError:
        whole = text.decode("latin-1")
    token, num_records = TOKEN.decode(), 0
    for line in whole.split("\r"):
        position, is_glued = line.find(token), False
        while position >= 0:
            num_records += 1
            if num_records > MAX_RECORDS_PER_LINE:
                yield f"more than {MAX_RECORDS_PER_LINE} records on one line", is_glued
                return
            space = _SPACE.match(line, position + len(token))
            start = end = position + len(token) if space is None else space.end()
            try:
                value, end = _DECODER.raw_decode(line, start)
                fields = _fields(value, line[start:end])
                if not line.startswith(" ", position + len(token)):
                    fields["lacks_blank"] = True
                yield fields, is_glued
            except json.JSONDecodeError as error:
                yield why_no_json(error, line, start), is_glued
            except RecursionError:
                yield "nested too deeply", is_glued
            except ValueError as error:
                yield str(error), is_glued
            position = line.find(token, end)
            rest = line[end : position if position >= 0 else len(line)]
            if end > start and rest.strip():
                yield f"text follows the record: {rest.strip()[:40]!r}", is_glued
            is_glued = True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if found[key] != value:
                raise ValueError(f"key {key[:40]!r} occurs twice with different values")
    return found


_EXPECTED = ("value", "event_type", "metadata")
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)


def _fields(record: object, text: str) -> dict[str, Any]:
    """Return the arguments of LogLine that a record decoded from `text` gives: all but those on the record's place in
    the file. Raises ValueError with the form that was expected."""
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    may_be_unsound = "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH
    if may_be_unsound and not _is_sound(record, MAX_DEPTH):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels or not valid Unicode")
    key, time_ms = record.get("key"), record.get("time_ms")
    if not isinstance(key, str) or not key:
        raise ValueError("no 'key', expected a string")
    if isinstance(time_ms, bool) or not isinstance(time_ms, int | float):
        raise ValueError("no 'time_ms', expected a number of milliseconds")
    if not 0 <= time_ms < 1e15:
        raise ValueError("'time_ms' is not a time, expected milliseconds since 1970")
    problems = [f"no {name!r}" for name in _EXPECTED if name not in record]
    metadata, event_type = record.get("metadata", {}), record.get("event_type", "")
    if not isinstance(metadata, dict):
        problems.append(f"'metadata' is not an object{FOUND}{show(metadata)}")
        metadata = {}
    if not isinstance(event_type, str):
        problems.append(f"'event_type' is not a string{FOUND}{show(event_type)}")
        event_type = ""
    namespace = record.get("namespace", "")
    if not isinstance(namespace, str):
        problems.append("'namespace' is not a string")
    return {
        "time_ms": time_ms,
        "event_type": event_type,
        "key": key,
        "value": record.get("value"),
        "metadata": metadata,
        "namespace": namespace if isinstance(namespace, str) else "",
        "problems": tuple(problems),
    }


def _is_sound(value: object, depth: int) -> bool:
    """Return whether a JSON value is nested at most `depth` levels and its strings can be written as UTF-8."""
    if isinstance(value, str):
        return value.isascii() or _SURROGATE.search(value) is None
    if isinstance(value, dict):
        return depth > 0 and all(_is_sound(k, depth) and _is_sound(v, depth - 1) for k, v in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_sound(item, depth - 1) for item in value)
    return True


def _excerpt(text: bytes) -> str:
    return printable(text[: _EXCERPT_CHARS * 4].decode("utf-8", "replace").strip()[:_EXCERPT_CHARS])


def as_number(value: object) -> float | None:
    """Return a finite number as float; None for any other value, booleans and huge integers included."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int and -_EXACT < value < _EXACT:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_whole(value: object) -> int | None:
    """Return a whole number of at most 64 bits as int (2.0 is whole); None for any other value."""
    if type(value) is int and -_EXACT < value < _EXACT:
        return value
    number = as_number(value)
    if number is None or number != int(number) or abs(number) >= _MAX_WHOLE:
        return None
    return value if isinstance(value, int) else int(number)
