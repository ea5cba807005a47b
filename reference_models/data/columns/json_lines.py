"""Read JSON lines, each an object of one sample, into batches of columns of strings and lists of strings.

A block of lines that `msgspec` finds valid is cut into values at its punctuation, for all lines at once. A block with
unusual lines is read line by line instead.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from reference_models.data.columns.text import MAX_COLUMNS, Utf8Text
from reference_models.data.prepared.lines import BLOCK_BYTES
from reference_models.process.errors import DatasetError

_LOOKED_AT = 1000
"""Number of a JSON-lines file's first lines that are searched for names of columns."""
_MOST_VALUES = 1 << 20
"""Maximum number of values (lines times columns) read from JSON lines at a time. It bounds memory even if each line
has few of many columns."""
_MOST_LAYOUTS = 32
"""Maximum number of different orders of keys in a block of JSON lines; a block with more is read line by line."""
_WORDS = {b"null": None, b"true": "true", b"false": "false"}
_QUOTE, _COMMA, _OPEN, _CLOSE, _NULL, _BLANK, _ESCAPE = b'",{}n \\'
_MOST_KEY_BYTES = 1 << 10
"""Maximum number of bytes of a JSON key and the blanks around it; a block of lines with a longer key is read line by
line."""
_MOST_BLANKS = 8
"""Maximum number of blanks before or after a JSON value; a block of lines with more is read line by line."""


class _Object(msgspec.Struct):
    """Type of any JSON object, by which msgspec checks that a line is an object; the object's members are
    discarded."""


class JsonLines:
    """Reader of a file of JSON lines. Values are returned as text, numbers as written in the file; null is a missing
    value."""

    def __init__(self, path: Path, text: Utf8Text, leave_out: Callable[[int, str], None]) -> None:
        self._path, self._text, self._leave_out = path, text, leave_out
        self._num_lines = 0
        self._rest = b""
        self._ahead = self._read_block()
        self._sound = msgspec.json.Decoder(_Object)
        self._objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self.names, self.nested = self._find_names(self._ahead.splitlines()[:_LOOKED_AT])
        """Two lists of keys in the order of the file's first lines. Values of the first are single values, or lists
        of single values. Values of the second are objects, lists of objects or lists of lists."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the lines in batches of the columns `names`. The number of a line that is no object, and why it is
        left out, are passed to the function `leave_out`."""
        block, self._ahead = self._ahead, b""
        lists: set[int] = set()
        while block:
            for lines in _pieces(block, max(1, _MOST_VALUES // max(1, len(names)))):
                columns = self._cut(lines, names, lists)
                if columns is None:
                    values = self._read_lines(lines, names)
                    columns = [_make(tokens, place, lists) for place, tokens in enumerate(values)]
                yield pa.RecordBatch.from_arrays(columns, [*names])
            block = self._read_block()

    def _cut(self, block: bytes, names: Sequence[str], lists: set[int]) -> list[pa.Array] | None:
        """Return the columns `names` of a block of JSON lines, all lines at once; None if a line is so unusual that
        the block must be read line by line."""
        block = block.replace(b"\r\n", b"\n")
        if b"\r" in block:
            return None
        try:
            num_lines = len(self._sound.decode_lines(block))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        found = find_values(block, names)
        if found is None or len(found[0]) != num_lines:
            return None
        self._num_lines += num_lines
        return _make_columns(block, *found, lists)

    def _read_lines(self, block: bytes, names: Sequence[str]) -> list[pa.Array]:
        """Return the values of the columns `names` in a block of JSON lines, which is decoded line by line."""
        rows: list[dict[str, msgspec.Raw]] = []
        for line in block.splitlines():
            if not line.strip():
                continue
            self._num_lines += 1
            try:
                rows.append(self._objects.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._leave_out(self._num_lines, "is no JSON object on a line of its own")
        columns = [[row.get(name) for row in rows] for name in names]
        return [
            pa.array([None if value is None else bytes(value) for value in column], pa.binary()) for column in columns
        ]

    def _read_block(self) -> bytes:
        """Return the file's next complete lines; empty at the end of the file."""
        while True:
            block = self._text.read(BLOCK_BYTES)
            whole = self._rest + block
            end = whole.rfind(b"\n") + 1 if block else len(whole)
            if end or not block:
                self._rest = whole[end:]
                return whole[:end]
            if len(whole) > 2 * BLOCK_BYTES:
                raise DatasetError(
                    f"{self._path}:{self._text.num_lines + 1}: a line of more than {2 * BLOCK_BYTES:,} bytes, "
                    "expected an object of one sample per line."
                )
            self._rest = whole

    def _find_names(self, lines: Sequence[bytes]) -> tuple[list[str], list[str]]:
        names: dict[str, bool] = {}
        for line in lines:
            try:
                found = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            for name, value in found.items():
                items = value if isinstance(value, list) else (value,)
                names[name] = names.get(name, False) or any(isinstance(item, dict | list) for item in items)
            if len(names) > MAX_COLUMNS:
                raise DatasetError(f"{self._path}:1: found more keys, expected at most {MAX_COLUMNS:,}.")
        if not names:
            raise DatasetError(
                f"{self._path}:1: is no JSON object on a line of its own. Give JSON lines, an object per sample and "
                "line; of one array: jq -c '.[]'."
            )
        return [name for name, is_nested in names.items() if not is_nested], [name for name in names if names[name]]


def _pieces(block: bytes, num_lines: int) -> Iterator[bytes]:
    """Yield successive pieces of a block, each of `num_lines` lines with their line feeds; the last piece has the
    lines that remain."""
    if block.count(b"\n") <= num_lines:
        yield block
        return
    lines = block.removesuffix(b"\n").split(b"\n")
    for start in range(0, len(lines), num_lines):
        yield b"\n".join(lines[start : start + num_lines]) + b"\n"


def find_values(block: bytes, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the positions where the values of the keys `names` begin and end in valid JSON lines: two arrays [lines,
    names], -1 where a value is missing.

    Return None if the lines must be read one by one: if a line has blanks around it, many blanks within, or the same
    key twice; or if the lines have many different orders of keys.
    """
    # Lengths stay: escaped characters are masked, so that every quote begins or ends a text.
    shown = block.replace(rb"\\", b"__").replace(rb"\"", b"__") if b"\\" in block else block
    text = np.frombuffer(shown, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if len(block) and not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    starts = np.append(0, ends[:-1] + 1)
    if (ends - starts < 4).any() or (text[starts] != _OPEN).any() or (text[ends - 1] != _CLOSE).any():
        return None
    marks = _find_commas(text, len(ends))
    first_of = np.searchsorted(marks, starts)
    counts = np.diff(np.append(first_of, len(marks)))
    if counts.max() >= MAX_COLUMNS:
        return None
    begins = np.full((len(ends), len(names)), -1, np.int64)
    stops = begins.copy()
    place_of = {name: place for place, name in enumerate(names)}
    waiting = np.arange(len(ends))
    for _ in range(_MOST_LAYOUTS):
        if not len(waiting):
            return _without_blanks(text, begins, stops)
        rows = waiting[counts[waiting] == counts[waiting[0]]]
        inner = marks[first_of[rows][:, None] + np.arange(counts[waiting[0]])]
        cells = np.column_stack([starts[rows], inner]) + 1
        closes = np.column_stack([inner, ends[rows] - 1])
        keys = [_read_key(shown, block, *span) for span in zip(cells[0].tolist(), closes[0].tolist(), strict=True)]
        known = [key for key, _ in keys]
        if None in known or len({*known}) < len(known) or max(length for _, length in keys) > _MOST_KEY_BYTES:
            return None
        is_alike = _begin_alike(block, cells, np.array([length for _, length in keys]))
        rows = rows[is_alike]
        for number, (key, length) in enumerate(keys):
            place = place_of.get(key or "", -1)
            if place >= 0:
                begins[rows, place] = cells[is_alike, number] + length
                stops[rows, place] = closes[is_alike, number]
        waiting = np.setdiff1d(waiting, rows, assume_unique=True)
    return None


def _find_commas(text: NDArray[np.uint8], num_lines: int) -> NDArray[np.int64]:
    """Return the positions of the commas between members of JSON lines. Commas within strings, lists or objects are
    left out."""
    folded = text | 0x20  # the two kinds of brackets alike
    is_mark = ((text == _COMMA) | (folded == _OPEN) | (folded == _CLOSE)) & ~_find_texts(text == _QUOTE)
    places = np.flatnonzero(is_mark)
    kinds = folded[places]
    is_comma = kinds == (_COMMA | 0x20)
    if len(places) - is_comma.sum() > 2 * num_lines:  # lists or objects in lines
        depths = np.cumsum((kinds == _OPEN).astype(np.int64) - (kinds == _CLOSE))
        is_comma &= depths == 1
    commas: NDArray[np.int64] = places[is_comma]
    return commas


def _find_texts(is_quote: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask [n] of the bytes within JSON strings, opening quotes included. A byte is in a string if the
    number of quotes up to and including the byte is odd.

    The parity of the number of quotes is computed for 64 bytes at a time, as in simdjson (Langdale and Lemire,
    Parsing Gigabytes of JSON per Second, 2019, section 3.1.1).
    """
    packed = np.packbits(is_quote, bitorder="little")
    words = np.zeros(-(-len(packed) // 8), "<u8")
    words.view(np.uint8)[: len(packed)] = packed
    for shift in (1, 2, 4, 8, 16, 32):
        words ^= words << np.uint64(shift)
    is_odd = np.logical_xor.accumulate(words >> np.uint64(63) != 0)
    words[1:][is_odd[:-1]] ^= np.uint64(2**64 - 1)
    return np.unpackbits(words.view(np.uint8), count=len(is_quote), bitorder="little").view(np.bool_)


def _read_key(shown: bytes, block: bytes, start: int, stop: int) -> tuple[str | None, int]:
    """Return the JSON key between `start` and `stop` (None if there is none), and the number of bytes from `start` to
    the key's value."""
    begin = shown.find(b'"', start, stop)
    end = shown.find(b'"', begin + 1, stop)
    colon = shown.find(b":", end, stop)
    if min(begin, end, colon) < 0:
        return None, 0
    value = colon + 1
    while value < stop and shown[value] in b" \t":
        value += 1
    return msgspec.json.decode(block[begin : end + 1], type=str), value - start


def _begin_alike(block: bytes, cells: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask [n] of the JSON lines whose keys are the same as the first line's, in the same order. `cells` has
    the positions in the block at which each line's members begin, and `lengths` the bytes of each of the first line's
    keys."""
    padded = block + bytes(int(lengths.max()) + 8)
    words = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
    is_alike = np.ones(len(cells), np.bool_)
    for begin in range(0, int(lengths.max()), 8):
        some = lengths > begin
        found = words[(cells if some.all() else cells[:, some]) + begin]
        unused = np.maximum(8 - (lengths[some] - begin), 0).astype(np.uint64)
        is_alike &= ((found ^ found[0]) << (unused * np.uint64(8)) == 0).all(axis=1)
    return is_alike


def _without_blanks(
    text: NDArray[np.uint8], begins: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return begins and ends of JSON values without the blanks around them; None if a value has more than
    _MOST_BLANKS blanks around it."""
    is_there = begins >= 0
    for _ in range(_MOST_BLANKS):
        before, behind = is_there & (text[begins] <= _BLANK), is_there & (text[stops - 1] <= _BLANK)
        if not (before.any() or behind.any()):
            return begins, stops
        begins, stops = begins + before, stops - behind
    return None


def _make_columns(
    block: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], lists: set[int]
) -> list[pa.Array]:
    """Return an Arrow column for each column of JSON values. The values lie between the positions `starts` and `ends`
    [n, columns].

    `lists` has the numbers of the columns that hold lists in this block or an earlier one; this block's are added.
    """
    text = np.frombuffer(block, np.uint8)
    begins = np.where(starts < 0, _NULL, text[starts])
    is_plain = ~((begins | 0x20) == _OPEN).any(axis=0)
    if len(escapes := np.flatnonzero(text == _ESCAPE)):
        is_plain &= (np.searchsorted(escapes, starts) == np.searchsorted(escapes, ends)).all(axis=0)
    is_plain[[*lists]] = False
    is_quoted = (begins == _QUOTE) & is_plain
    values = _gather(text, (starts + is_quoted).T.reshape(-1), (ends - is_quoted).T.reshape(-1), begins.T == _NULL)
    pieces = [values.slice(place * len(starts), len(starts)) for place in range(len(is_plain))]
    return [
        piece.view(pa.string()) if is_plain[place] else _make(piece, place, lists)
        for place, piece in enumerate(pieces)
    ]


def _gather(
    text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], is_null: NDArray[np.bool_]
) -> pa.Array:
    """Return an Arrow column of the bytes of `text` from each start to its end [n], null for missing values."""
    lengths = np.where(is_null.reshape(-1), 0, ends - starts)
    offsets = np.append(0, np.cumsum(lengths))
    data = text[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
    is_there = np.packbits(~is_null.reshape(-1), bitorder="little")
    buffers = [pa.py_buffer(part) for part in (is_there, offsets.astype(np.int32), data)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def _make(column: pa.Array, place: int, lists: set[int]) -> pa.Array:
    """Return a column's JSON values as texts, or as lists of texts if this block or an earlier one has a list in the
    column. `lists` has the indices of such columns; this column's is added if it is one."""
    tokens = column.dictionary_encode()
    cells: list[Any] = [_read_token(token) for token in tokens.dictionary.to_pylist()]
    if place in lists or any(isinstance(cell, list) for cell in cells):
        lists.add(place)
        cells = [cell if cell is None or isinstance(cell, list) else [cell] for cell in cells]
        return pa.array(cells, pa.list_(pa.string())).take(tokens.indices)
    return pa.array(cells, pa.string()).take(tokens.indices)


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
