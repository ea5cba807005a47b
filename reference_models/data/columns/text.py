"""Detect the form of a text file of columns from its first bytes, and read its rows as a stream of valid UTF-8."""

import codecs
import csv as text_rows
import io
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reference_models.data.columns.cells import NULLS, is_number_or_time, mark_bad_bytes, show_cell
from reference_models.data.prepared.lines import BLOCK_BYTES, TextSource
from reference_models.process.errors import DatasetError

HEAD_BYTES = 1 << 20
MAX_COLUMNS = 1 << 14
DELIMITERS = ("\t", "::", "\x01", ",", ";", "|")
"""Delimiters of columns that are tried if the definition names none. If several delimiters make equally many columns,
the first of these is taken."""
_PLACEHOLDER = b"\x1f"
"""Byte that replaces a delimiter of several characters for pyarrow, which splits at one byte."""
_SNIFFED_ROWS = 50
_MOSTLY = 0.9
_SEP = re.compile(rb'"?sep=([^"\r\n]{1,8})"?\r?\n')
_BOM = codecs.BOM_UTF8
_UNICODE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_BINARY = (
    (b"ORC", "ORC"),
    (b"ARROW1", "Arrow IPC (Feather)"),
    (b"Obj\x01", "Avro"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "NumPy"),
    (b"SQLite format 3", "SQLite"),
    (b"\x80\x02", "pickle"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
)
_NO_TEXT = bytes(code for code in range(32) if code not in (0, 1, 9, 10, 13, 30, 31))
"""Control characters that occur in no text file; zero bytes are not among them, as databases write these for missing
values."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """Form of a text file of columns: the columns' names, the delimiter, whether there is a header, and where rows
    begin."""

    names: tuple[str, ...]
    """Names of the text file's columns, in the order of a row's cells."""
    delimiter: str
    begin_bytes: int
    """Number of bytes in the text file before the first row: a byte order mark, a line `sep=`, the header."""
    first_rows: tuple[tuple[str, ...], ...] = ()
    """Cells of the text file's first rows after the header."""
    has_header: bool = False
    has_rows: bool = True
    """Whether the text file has rows after the header."""


def read_form(path: Path, delimiter: str | None, names: Sequence[str]) -> TextForm:
    """Detect the form of a text file of columns. The delimiter is detected if `delimiter` is None. `names` are the
    columns' names for a file without a header.

    A column without a name in the header gets the name "". It is either the first column, with row names, as R writes
    them; or an empty last column, made by a delimiter at the end of each row. Raises DatasetError if the file is not
    UTF-8 text; the message names the file's form and a command that converts it.
    """
    with TextSource(path).opened() as file:
        head = _read_fully(file, HEAD_BYTES)
    refuse_other_forms(path, head)
    begin = len(_BOM) if head.startswith(_BOM) else 0
    if not head[begin:].strip():
        raise DatasetError(f"{path}: is empty. Give a file with a header and one sample per line.")
    if (said := _SEP.match(head, begin)) is not None:
        begin = said.end()
        delimiter = delimiter or said[1].decode("utf-8", "replace")
    if begin < len(head) == HEAD_BYTES and b"\n" not in head[begin:] and b"\r" not in head[begin:]:
        raise DatasetError(f"{path}:1: a line of more than {HEAD_BYTES:,} bytes, expected a header or a row.")
    text = head[begin:].decode("utf-8", "surrogateescape")
    delimiter = delimiter or find_delimiter(text)
    rows, ends = _split(path, text, delimiter, is_cut=len(head) == HEAD_BYTES)
    if not rows:
        raise DatasetError(f"{path}:1: begins with blank lines alone, expected a header or a row. Remove them.")
    if len(rows[0]) > MAX_COLUMNS:
        raise DatasetError(
            f"{path}:1: {len(rows[0]):,} columns, expected at most {MAX_COLUMNS:,}. Give a file of those that matter."
        )
    found = [cell.strip() for cell in rows[0]]
    if names and found != [*names]:
        return TextForm(tuple(names), delimiter, begin, tuple(rows), False)
    header = mark_bad_bytes("\n".join(found)).split("\n") if "\n" not in "".join(found) else found
    first_bytes = len(text[: ends[0]].encode("utf-8", "surrogateescape"))
    has_rows = len(head) == HEAD_BYTES or bool(text[ends[0] :].strip())
    return TextForm(_fit_names(header, rows[1:]), delimiter, begin + first_bytes, tuple(rows[1:]), True, has_rows)


def refuse_headerless(path: Path, form: TextForm) -> None:
    """Raise DatasetError if a text file's first line is no header, or if the file seems to have several columns but
    is read as one, since the delimiter is wrong.

    A first line is no header if most of its cells occur as values in later rows, or if a cell is a number or a time.
    Whole numbers are allowed if another cell is a word above a column of numbers or times. A file that is read
    without a header, or has no rows, is not refused.
    """
    names, rows = form.names, form.first_rows
    if not form.has_header or names == tuple(map(str, range(len(names)))) or not rows:
        return
    if len(names) == 1:
        _refuse_unsplit(path, [cell for row in (names, *rows) for cell in row if cell.strip()])
    wrong = [] if _may_be_numbered(names, rows) else [name for name in names if is_number_or_time(name)]
    is_held = [
        name in {row[place].strip() for row in rows if place < len(row)} for place, name in enumerate(names) if name
    ]
    if not wrong and sum(is_held) * 2 <= len(is_held):
        return
    why = f"holds {wrong[0]!a:.40}, a value," if wrong else "holds values that later rows hold too,"
    first = [f'"c{number}"' for number in range(1, len(names) + 1)][:3]
    shown = ", ".join([*first, *(["…"] if len(names) > 3 else [])])
    raise DatasetError(
        f"{path}:1: the file has no header: its first line {why} where names of columns are expected. Name its "
        f"{len(names)} columns: --set 'data.parameters.names=[{shown}]'"
        + (", or use --kind criteo if it is of Criteo's form." if len(names) == 40 else ".")
    )


def _refuse_unsplit(path: Path, cells: Sequence[str]) -> None:
    """Raise DatasetError if most cells of a file's only column hold blanks, and the first cell holds none of
    DELIMITERS. The blanks are then probably delimiters, which the user must name."""
    if 2 * sum(" " in cell.strip() for cell in cells) <= len(cells) or any(mark in cells[0] for mark in DELIMITERS):
        return
    shown = f"{path}: has one column, whose cells hold blanks, as in {show_cell(cells[0])}"
    if 2 * sum(all(":" in part for part in cell.split()[1:]) for cell in cells) > len(cells):
        raise DatasetError(
            f"{shown}: pairs of key and value, as libsvm and libffm have them, are not read. Write them as CSV: a "
            "header, and a column for each key."
        )
    raise DatasetError(
        f"{shown}; expected columns between commas, tabs, ';', '|' or '::'. Where blanks are between columns, give "
        "--set 'data.parameters.delimiter=\" \"'."
    )


def _may_be_numbered(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a text file's first line can be a header although some of its cells are whole numbers, as in the
    dataset Ali-CCP.

    It can if all cells differ, and if at least one cell is a word above a column that holds only numbers or times.
    """
    if len({*names}) < len(names) or not all(name.isdecimal() for name in names if is_number_or_time(name)):
        return False
    return any(
        name not in NULLS
        and not is_number_or_time(name)
        and all(place < len(row) and is_number_or_time(row[place]) for row in rows if any(row))
        for place, name in enumerate(names)
    )


def refuse_other_forms(path: Path, head: bytes) -> None:
    """Raise DatasetError for UTF-16, UTF-32, a JSON array, zero bytes or a binary format, and say how to convert."""
    shown = shlex.quote(str(path))
    encoding = next((name for mark, name in _UNICODE if head.startswith(mark)), None)
    if encoding is None and len(head) > 8 and b"\0" in head[:64]:
        odd, even = head[1:256:2].count(0), head[:256:2].count(0)
        if min(odd, even) == 0 and max(odd, even) * 2 > len(head[1:256:2]):
            encoding = "UTF-16LE" if odd else "UTF-16BE"
    if encoding is not None:
        raise DatasetError(
            f"{path}: is {encoding}, expected UTF-8. Convert it: iconv -f {encoding} -t UTF-8 {shown} > utf8.csv"
        )
    if head.lstrip().startswith(b"[{"):
        raise DatasetError(
            f"{path}: is one JSON array, expected JSON lines: an object per sample and line. Convert it: "
            f"jq -c '.[]' {shown} > rows.jsonl"
        )
    form = next((name for magic, name in _BINARY if head.startswith(magic)), None)
    if form is None and len(head) > 16 and head[4:8] == b"\0\0\0\0" and head[:4] != b"\0\0\0\0":
        form = "TFRecord"
    if (
        form is None
        and 0 < head[:4096].count(0) * 100 < len(head[:4096])
        and head[:4096].translate(None, _NO_TEXT) == head[:4096]
    ):
        line = 1 + head[: head.index(0)].count(b"\n")
        raise DatasetError(
            f"{path}:{line}: holds a zero byte, expected text. Remove such bytes: tr -d '\\0' < {shown} > clean.csv"
        )
    if form is None and b"\0" in head[:4096]:
        form = "binary"
    if form is not None:
        raise DatasetError(
            f"{path}: is {form}, expected CSV, JSON lines or Parquet. Convert it, such as with pandas: "
            "frame.to_parquet('rows.parquet')"
        )


def _read_fully(file: IO[bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def find_delimiter(text: str) -> str:
    """Return the delimiter that makes the most columns, among those that cut nearly all first lines into equally many
    cells."""
    lines = [line for line in text.splitlines() if line.strip()][: _SNIFFED_ROWS + 1] or [text]
    best, most = ",", 1
    for delimiter in DELIMITERS:
        counts = [_count_cells(line, delimiter) for line in lines[1:] or lines]
        usual = max(set(counts), key=counts.count)
        is_steady = counts.count(usual) >= _MOSTLY * len(counts) and _count_cells(lines[0], delimiter) > 1
        if is_steady and usual > most:
            best, most = delimiter, usual
    return best if most > 1 else max(DELIMITERS[3:], key=lambda mark: _count_cells(lines[0], mark))


def _count_cells(line: str, delimiter: str) -> int:
    if '"' in line and len(delimiter) == 1:
        with suppress(text_rows.Error):  # a cell is longer than `csv` reads
            return len(next(text_rows.reader([line], delimiter=delimiter), []))
    return line.count(delimiter) + 1


def _split(path: Path, text: str, delimiter: str, *, is_cut: bool) -> tuple[list[tuple[str, ...]], list[int]]:
    """Return the cells of each row (a text file's header and its first rows), and the position in `text` where each
    row ends."""
    lines = [*io.StringIO(text[: HEAD_BYTES // 4] if is_cut else text, newline="")]
    if len(lines) == 1 and is_cut:
        lines = [*io.StringIO(text, newline="")]
    rows: list[tuple[str, ...]] = []
    ends: list[int] = []
    if len(delimiter) > 1:
        end = 0
        for line in lines[: _SNIFFED_ROWS + 1]:
            end += len(line)
            rows.append(tuple(line.rstrip("\r\n").split(delimiter)))
            ends.append(end)
        return rows, ends
    reader = text_rows.reader(lines, delimiter=delimiter)
    try:
        for row in reader:
            if row or rows:
                rows.append(tuple(row))
                ends.append(sum(map(len, lines[: reader.line_num])))
            if len(rows) > _SNIFFED_ROWS:
                break
    except text_rows.Error as error:
        if not rows:
            raise DatasetError(f"{path}:1: its first line is no header: {error}.") from None
    return rows, ends


def _fit_names(header: list[str], rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return a header's names, with a column "" added if nearly all rows have one more cell than the header: at the
    end if the rows' last cells are empty, else at the beginning."""
    longer = [row for row in rows if len(row) == len(header) + 1]
    if not longer or len(longer) < _MOSTLY * len([row for row in rows if row]) or "" in header:
        return tuple(header)
    return (*header, "") if not any(row[-1].strip() for row in longer) else ("", *header)


class Utf8Text(io.RawIOBase):
    """Stream of a text file's rows as UTF-8. The character BAD_TEXT and two hexadecimal digits replace each byte that
    is not UTF-8.

    A delimiter of several characters is replaced by one byte.
    """

    def __init__(self, file: IO[bytes], form: TextForm) -> None:
        self._file = file
        self._delimiter = form.delimiter.encode() if len(form.delimiter) > 1 else b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._is_plain = True
        self._rest = b""
        """Bytes at the end of the block read last that may be the first part of a delimiter of several characters."""
        self._ready = b""
        self.has_bad_text = False
        self.num_lines = 0
        """Number of the file's lines returned so far, including those before the first row."""
        self.num_bytes = form.begin_bytes
        begin = _read_fully(file, form.begin_bytes)
        self.num_lines = begin.count(b"\n")

    @property
    def pyarrow_delimiter(self) -> str:
        """Character that the stream has between cells in place of a delimiter of several characters."""
        return _PLACEHOLDER.decode()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` further bytes of the rows; empty at the end of the file."""
        if size < 0:
            size = BLOCK_BYTES
        while not self._ready:
            block = self._file.read(size)
            self._ready = self._clean(block)
            if not block:
                break
        piece, self._ready = self._ready[:size], self._ready[size:]
        self.num_lines += piece.count(b"\n")
        return piece

    def _clean(self, block: bytes) -> bytes:
        self.num_bytes += len(block)
        if not (self._is_plain and block.isascii()):
            text = self._decoder.decode(block, final=not block)
            self._is_plain = not self._decoder.getstate()[0]
            try:
                block = text.encode()
            except UnicodeEncodeError:
                self.has_bad_text = True
                block = mark_bad_bytes(text).encode()
        if self._delimiter:
            whole = self._rest + block
            kept = len(self._delimiter) - 1 if block and whole.endswith(self._delimiter[:1]) else 0
            if whole.endswith(self._delimiter):
                kept = 0
            block, self._rest = whole[: len(whole) - kept], whole[len(whole) - kept :]
            block = block.replace(self._delimiter, _PLACEHOLDER)
        return block
