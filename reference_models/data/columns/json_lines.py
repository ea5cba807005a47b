"""JSON lines, an object of one sample per line, to batches of columns: strings, and lists of strings."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import compute

from reference_models.data.columns.text import MAX_COLUMNS, Utf8Text
from reference_models.data.prepared.lines import BLOCK_BYTES
from reference_models.process.errors import DatasetError

_LOOKED_AT = 1000
"""Lines in which names are looked for."""
_END = b"\x1f"
"""Put behind each value: a byte that no JSON has within one."""
_NOTHING = msgspec.Raw(b"null")
_WORDS = {b"null": None, b"true": "true", b"false": "false"}


class JsonLines:
    """The lines of one file. A value is the text that it has there: numbers as they are written, null as none."""

    def __init__(self, path: Path, text: Utf8Text, leave_out: Callable[[int, str], None]) -> None:
        self._path, self._text, self._leave_out = path, text, leave_out
        self._num_lines = 0
        self._rest = b""
        self._ahead = self._read_lines()
        self.names, self.nested = self._find_names(self._ahead)
        """Keys that hold values or lists of values, and those that hold objects, in the order of the first lines."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; lines that are no object are left out by `leave_out`."""
        decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
        lines, self._ahead = self._ahead, []
        lists: set[int] = set()
        while lines:
            rows: list[dict[str, msgspec.Raw]] = []
            for line in lines:
                if not line.strip():
                    continue
                self._num_lines += 1
                try:
                    rows.append(decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    self._leave_out(self._num_lines, "is no JSON object on a line of its own")
            columns = [[row.get(name, _NOTHING) for row in rows] for name in names]
            made = [self._make(column, place, lists) for place, column in enumerate(columns)]
            yield pa.RecordBatch.from_arrays(made, [*names])
            lines = self._read_lines()

    def _make(self, column: Sequence[msgspec.Raw], place: int, lists: set[int]) -> pa.Array:
        if column and place not in lists and (plain := _read_plain(column)) is not None:
            return plain
        tokens = pa.array([*map(bytes, column)], pa.binary()).dictionary_encode()
        cells: list[Any] = [_read_token(token) for token in tokens.dictionary.to_pylist()]
        if place in lists or any(isinstance(cell, list) for cell in cells):
            lists.add(place)
            cells = [cell if cell is None or isinstance(cell, list) else [cell] for cell in cells]
            return pa.array(cells, pa.list_(pa.string())).take(tokens.indices)
        return pa.array(cells, pa.string()).take(tokens.indices)

    def _read_lines(self) -> list[bytes]:
        """Read the next block's lines; none at the end."""
        while True:
            block = self._text.read(BLOCK_BYTES)
            whole = self._rest + block
            end = whole.rfind(b"\n") + 1 if block else len(whole)
            if end or not block:
                self._rest = whole[end:]
                return whole[:end].splitlines() if whole[:end] else []
            if len(whole) > 2 * BLOCK_BYTES:
                raise DatasetError(
                    f"{self._path}:{self._text.num_lines + 1}: a line of more than {2 * BLOCK_BYTES:,} bytes, "
                    "expected an object of one sample per line."
                )
            self._rest = whole

    def _find_names(self, lines: Sequence[bytes]) -> tuple[list[str], list[str]]:
        names: dict[str, bool] = {}
        for line in lines[:_LOOKED_AT]:
            try:
                found = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            for name, value in found.items():
                items = value if isinstance(value, list) else (value,)
                names[name] = names.get(name, False) or any(isinstance(item, dict | list) for item in items)
            if len(names) > MAX_COLUMNS:
                raise DatasetError(f"{self._path}:1: more than {MAX_COLUMNS:,} keys, expected at most so many.")
        if not names:
            raise DatasetError(
                f"{self._path}:1: is no JSON object on a line of its own. Give JSON lines, an object per sample and "
                "line; of one array: jq -c '.[]'."
            )
        return [name for name, is_nested in names.items() if not is_nested], [name for name in names if names[name]]


def _read_plain(column: Sequence[msgspec.Raw]) -> pa.Array | None:
    """Return the texts of values that are neither lists nor objects, nor hold an escape; None where any does."""
    data = _END.join(column) + _END
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _END[0]) + 1
    if len(ends) != len(column) or any(mark in data for mark in (b"\\", b"[", b"{")):
        return None
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    texts = pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), pa.py_buffer(data))
    is_null = compute.equal(texts, "null" + _END.decode())
    return compute.if_else(is_null, pa.scalar(None, pa.string()), compute.utf8_trim(texts, '"' + _END.decode()))


def _read_token(token: bytes) -> Any:
    """Return the text of a JSON value, None for null, a list of texts for a list."""
    if token in _WORDS:
        return _WORDS[token]
    if token[:1] not in b'"[{':
        return token.decode()
    found = msgspec.json.decode(token)
    if isinstance(found, list):
        parts = msgspec.json.decode(token, type=list[msgspec.Raw])
        return [_read_token(bytes(part)) if bytes(part)[:1] not in b"[{" else bytes(part).decode() for part in parts]
    return found if isinstance(found, str) else token.decode()
