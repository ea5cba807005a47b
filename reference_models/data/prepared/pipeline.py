"""Prepare a dataset from a user's files in three passes: parse to columns on disk, number categories, write.

One pass reads the files into columns on disk (the spool); then each category column in turn is counted in the
training rows and replaced by ids; a last pass writes the dataset. Rows keep the order of the files, or are sorted by
their times. Memory, in addition to that of libraries, stays below `memory_bytes` for files of any size and rows of
any width; the disk holds the spool and the dataset until the end.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.prepared.dictionary import (
    BYTES_PER_VALUE,
    RARE_ID,
    Dictionary,
    ValueCounts,
    number_values,
)
from reference_models.data.prepared.kept import digests_of, has_dictionary, keep_dictionary, keep_numbers, keeping
from reference_models.data.prepared.lines import SourceFile
from reference_models.data.prepared.look import (
    MOST_ROWS,
    ColumnLook,
    SoftLook,
    ValueRates,
    auc_of_number,
    rank_auc,
    remarks_on,
)
from reference_models.data.prepared.order import sort_rows
from reference_models.data.prepared.progress import SpoolProgress, digest_of, read_progress, write_progress
from reference_models.data.prepared.spool import FOLDER, Spool, SpoolColumn, category_name, remove_spool
from reference_models.data.store.layout import CLICKS, SOFT_CLICKS
from reference_models.data.store.manifest import KEPT, MANIFEST, SOFT_LABELS, write_manifest
from reference_models.data.store.store import Chunk, SplitWriter, unfinished
from reference_models.process.errors import ConfigError, DatasetError

TIME = "time"
"""Name of the column of the rows' times in the spool (parsed rows on disk)."""
MAX_MALFORMED = 0.001
MEMORY_BYTES = 1 << 30
MIN_MEMORY_BYTES = 1 << 29
WORKING_BYTES = 256 << 20
"""Bytes of memory for interpreter, libraries, buffers; the rest of `memory_bytes` is for one category column's
dictionary."""
NUM_NAMED = 10
_COLUMN_ROWS = 1 << 20
_STORE_ROWS = 1 << 16
_KEPT_BYTES = 1 << 26
"""Number of bytes, of files parsed or of columns replaced by ids, after which a preparation's progress is recorded on
disk again."""
_PIECE_BYTES = 1 << 25
"""Maximum number of bytes of parsed rows that are processed at a time; a single row may have more."""

Progress = Callable[[str, float], None]
"""Type of functions that are called with a preparation's stage (such as 'parsing') and its finished share, from 0 to
1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feature:
    """Category column of a user's files, and how its values are encoded as ids."""

    name: str
    """Name of the category column in messages."""
    width: int = 1
    """Number of ids per sample in the category column."""
    min_count: int = 1
    """Least number of occurrences in the training rows for which a category value gets its own id; rarer values share
    id 0."""
    modulo: int | None = None
    """Number N such that category values are taken modulo N before they are counted; None to take them as they
    are."""
    num_hashed: int | None = None
    """Rows of the embedding table if ids are hashed (values modulo rows - 1, plus 1; id 0 for missing values); None
    if ids are from a dictionary."""
    missing: int | None = None
    """Category value that stands for an empty cell and has id 0; None if there is no such value."""
    remedy: str
    """Advice on how to make the column's dictionary smaller, for the error message when memory is short."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRows:
    """Well-formed rows of a file: labels, dense features and category values.

    `labels` is uint8 [n], or float32 if labels are soft; `dense` is [n, num_dense]; `categories` has an array [n] or
    [n, width] for each category column. `malformed` has the first malformed rows, which were left out, as 'PLACE:
    REASON' without the file's name.
    """

    labels: NDArray[np.uint8] | NDArray[np.float32]
    dense: NDArray[Any]
    categories: Sequence[NDArray[Any]]
    num_malformed: int = 0
    malformed: Sequence[str] = ()
    num_others: int = 0
    """Number of further rows read from the file, well-formed or not, which the dataset does not use. They do not
    count as malformed."""
    times: NDArray[np.longdouble] | None = None
    """Times [n] by which rows are to be sorted (longdouble holds every int64 and float64 exactly); None if the rows
    have no times."""


class Reader(Protocol):
    """Reader of a user's files for one kind of data, whose methods a dataset's preparation calls."""

    @property
    def features(self) -> Sequence[Feature]:
        """Category columns of the files, in the order of the embedding tables."""

    @property
    def numbers(self) -> Sequence[str]:
        """Names of the dense features for messages; empty if there are no dense features."""

    @property
    def dense_dtype(self) -> str:
        """NumPy type of dense features as parsed."""

    @property
    def category_dtype(self) -> str:
        """NumPy type, unsigned, of category values as parsed."""

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[FileRows]:
        """Yield the rows of a file in order; `on_bytes` gets the number of bytes just read. Raises DatasetError."""

    def state(self) -> dict[str, Any]:
        """Return the reader's state after the files read so far, as JSON values, for `restore` in another process."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue reading where a killed process stopped: set the reader to the state `state`."""

    def source(self) -> SourceFile | None:
        """Return path, size and sha256 of the file read last; None if none of its rows were used."""

    @property
    def keeps_dictionaries(self) -> bool:
        """Whether dictionaries of category values are stored with the dataset, to encode rows of other files."""

    @property
    def moments(self) -> NDArray[np.float64] | None:
        """Mean and standard deviation [2, D] by which `finish_dense` standardises dense features; None for a kind of
        data that does not store them with the dataset."""

    @property
    def has_times(self) -> bool:
        """Whether the files' rows have times, by which the dataset's rows are sorted."""

    def split(
        self, file_rows: Sequence[int], num_train_files: int, times: Callable[[], Iterator[NDArray[Any]]]
    ) -> dict[str, range]:
        """Return the ranges of rows of the splits `train` and `eval`, counted through all files in order, or in order
        of time.

        `times` returns the rows' sorted times, piece by piece. Raises DatasetError.
        """

    def finish_dense(self, pieces: Iterator[NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
        """Return the function that transforms dense features as parsed to those stored; `pieces` yields the parsed
        dense features of training rows, piece by piece."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDataset:
    """Result of the preparation of files: the dataset, and counts of rows that were left out."""

    folder: Path
    dataset_sha256: str
    num_samples: dict[str, int]
    num_unused: int
    """Number of well-formed rows of the files that are neither in training nor in evaluation."""
    num_embeddings: tuple[int, ...]
    num_lines: int
    num_malformed: int
    malformed: tuple[str, ...]
    stages_s: dict[str, float]
    positives: dict[str, float]
    """Share of labels that are 1, by split; of soft labels, their mean."""
    looks: tuple[ColumnLook, ...]
    """Counts of missing, rare and unseen values in each column of the files; dense features come first."""
    soft: SoftLook | None = None
    """Statistics of soft labels (shares from 0 to 1); None for labels 0 and 1."""

    @property
    def remarks(self) -> list[str]:
        """Warnings about the prepared data's quality, usually none."""
        return remarks_on(self.positives, self.num_samples, self.looks, self.soft)


@dataclass(slots=True)
class _Tally:
    """Counts of the lines and rows that a preparation has parsed so far."""

    max_malformed: float
    num_lines: int = 0
    num_malformed: int = 0
    named: list[str] = field(default_factory=list)
    file_rows: list[int] = field(default_factory=list)
    sources: list[SourceFile] = field(default_factory=list)
    is_sorted: bool = True
    """Whether no row parsed so far has an earlier time than the row before it."""
    last: NDArray[np.longdouble] | None = None
    """Time of the row parsed last [1]; None before the first row is parsed."""

    @property
    def state(self) -> dict[str, Any]:
        """Counts of the lines and rows parsed so far, as JSON values, from which another process can continue after
        this one is killed. The last row's time is left out, since it is on disk."""
        members = ("num_lines", "num_malformed", "named", "file_rows", "is_sorted")
        sources = [(str(each.path), each.num_bytes, each.sha256) for each in self.sources]
        return {**{name: getattr(self, name) for name in members}, "sources": sources}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the counts to those (from `state`) that a killed preparation recorded."""
        for name, value in state.items():
            setattr(self, name, value)
        sources = state.get("sources", ())
        self.sources = [SourceFile(path=Path(path), num_bytes=size, sha256=digest) for path, size, digest in sources]

    def add(self, path: Path, rows: FileRows) -> None:
        if rows.times is not None and len(rows.times):
            times = rows.times if self.last is None else np.concatenate([self.last, rows.times])
            self.is_sorted = self.is_sorted and not bool((times[1:] < times[:-1]).any())
            self.last = times[-1:]
        self.named += [f"{path}:{name}" for name in rows.malformed[: NUM_NAMED - len(self.named)]]
        self.num_lines += len(rows.labels) + rows.num_malformed + rows.num_others
        self.num_malformed += rows.num_malformed
        self.file_rows[-1] += len(rows.labels)
        self.check(is_last=False)

    def check(self, *, is_last: bool) -> None:
        # Before the end, only a file of plainly another format stops the pass: bad lines may be close together.
        allowed = self.max_malformed * self.num_lines if is_last else max(10_000, 0.5 * self.num_lines)
        if self.num_malformed > allowed:
            share = f"{self.num_malformed:,} of {self.num_lines:,} lines are malformed"
            raise DatasetError(
                f"{self.named[0]}; {share}, more than the {100 * self.max_malformed:g} % allowed. Repair the file or "
                "allow more with --max-malformed (malformed lines are left out)."
                + "".join(f"\n  {name}" for name in self.named[1:])
            )


def _dictionaries_of(reader: Reader) -> list[int]:
    """Return the numbers, from 0, of the reader's category columns whose ids come from dictionaries, not hashes."""
    return [number for number, feature in enumerate(reader.features) if feature.num_hashed is None]


def _columns_of(reader: Reader, data: DataConfig) -> dict[str, SpoolColumn]:
    """Return the format, by name, of each column of the spool (parsed rows on disk)."""
    categories = {
        category_name(number): SpoolColumn(reader.category_dtype, feature.width)
        for number, feature in enumerate(reader.features)
    }
    times = {TIME: SpoolColumn("longdouble")} if reader.has_times else {}
    labels = SpoolColumn("float32" if data.has_soft_labels else "uint8")
    return {"labels": labels, "dense": SpoolColumn(reader.dense_dtype, data.num_dense), **categories, **times}


def prepare_files(
    train_files: Sequence[Path],
    eval_files: Sequence[Path],
    data: DataConfig,
    folder: Path,
    reader: Reader,
    parameters: Mapping[str, Any],
    *,
    max_malformed: float = MAX_MALFORMED,
    memory_bytes: int = MEMORY_BYTES,
    on_progress: Progress | None = None,
    on_note: Callable[[str], None] = lambda text: None,
) -> PreparedDataset:
    """Make the dataset `data` in `folder` from a user's files; `reader` parses the files. The manifest stores
    `parameters`.

    The manifest is written last, so an interrupted preparation leaves no dataset. A preparation that is started again
    continues after the last file that was wholly parsed, and tells `on_note` so. Raises ConfigError if options are
    invalid; DatasetError if files are missing, damaged, too malformed or do not fit the definition; OSError if the
    disk is full.
    """
    _check_options(train_files, memory_bytes)
    if (folder / MANIFEST).exists():
        remove_spool(folder)  # left by a preparation that was killed at its end
        _look_at_begin([*train_files, *eval_files], reader, max_malformed)
        raise ConfigError(
            f"{folder}: holds a finished dataset already. Use it, or remove it, or give another --data folder."
        )
    report = on_progress or (lambda stage, share: None)
    started_s = time.monotonic()
    kept = SpoolProgress(asked=digest_of(train_files, eval_files, data, parameters))
    with (
        unfinished(folder, CLICKS),
        keeping(folder, reader.keeps_dictionaries),
        _begin_spool(folder, _columns_of(reader, data), reader, kept, on_note) as spool,
    ):
        saved = _Recorder(spool, kept, reader)
        tally = _parse([*train_files, *eval_files], spool, reader, max_malformed, report, saved)
        if not tally.is_sorted and not kept.is_parsed:
            saved.forget()
            _sort(spool, data, reader)
        saved.finish_parsing()
        parsed_s = time.monotonic()
        splits = reader.split(tally.file_rows, len(train_files), lambda: _read_times(spool))
        positives = _check_splits(data, spool, splits)
        soft = _look_at_shares(spool, splits) if data.has_soft_labels else None
        num_embeddings, looks = _number(spool, splits, reader, memory_bytes, report, saved, folder)
        looks = _look_at_numbers(spool, splits, reader, data) + looks
        _refuse_other_sizes(train_files[0], data, num_embeddings)
        numbered_s = time.monotonic()
        _write(spool, folder, replace(data, num_embeddings=num_embeddings), splits, reader, report)
        if reader.moments is not None:
            keep_numbers(folder, reader.moments)
        num_samples = {split: len(rows) for split, rows in splits.items()}
        digest = write_manifest(
            folder,
            CLICKS,
            {
                **_describe(data, num_samples, num_embeddings, parameters, tally, positives, looks, soft),
                **({KEPT: digests_of(folder, _dictionaries_of(reader))} if reader.keeps_dictionaries else {}),
            },
            sha256=data.sha256,
        )
        return PreparedDataset(
            folder=folder,
            dataset_sha256=digest,
            num_samples=num_samples,
            num_unused=spool.num_rows - sum(num_samples.values()),
            num_embeddings=num_embeddings,
            num_lines=tally.num_lines,
            num_malformed=tally.num_malformed,
            malformed=tuple(tally.named),
            positives=positives,
            looks=tuple(looks),
            soft=soft,
            stages_s=_time_stages(started_s, parsed_s, numbered_s),
        )


def _time_stages(started_s: float, parsed_s: float, numbered_s: float) -> dict[str, float]:
    """Return the seconds that each stage of a preparation took: parsing, numbering categories, and writing. Writing
    ends at this call.

    The arguments are times in seconds of a monotonic clock: when the preparation began, when parsing ended, and when
    numbering ended.
    """
    return {
        "parsing": parsed_s - started_s,
        "numbering": numbered_s - parsed_s,
        "writing": time.monotonic() - numbered_s,
    }


def _describe(
    data: DataConfig,
    num_samples: Mapping[str, int],
    num_embeddings: Sequence[int],
    parameters: Mapping[str, Any],
    tally: _Tally,
    positives: Mapping[str, float],
    looks: Sequence[ColumnLook],
    soft: SoftLook | None,
) -> dict[str, Any]:
    """Return the content of a prepared dataset's manifest, without the list of its files."""
    return {
        "kind": data.kind,
        "name": data.name,
        "splits": num_samples,
        "num_dense": data.num_dense,
        "num_embeddings": list(num_embeddings),
        "multi_hot": list(data.multi_hot),
        "parameters": dict(parameters),
        "num_lines": tally.num_lines,
        "num_malformed": tally.num_malformed,
        "malformed": tally.named,
        "positives": positives,
        "columns": [look.record() for look in looks],
        "remarks": remarks_on(positives, num_samples, looks, soft),
        **({} if soft is None else {SOFT_LABELS: asdict(soft)}),
        "sources": [
            {"name": source.path.name, "bytes": source.num_bytes, "sha256": source.sha256} for source in tally.sources
        ],
    }


def _refuse_other_sizes(file: Path, data: DataConfig, num_embeddings: tuple[int, ...]) -> None:
    if data.num_embeddings is not None and data.num_embeddings != num_embeddings:
        raise DatasetError(
            f"{file}: the files have {list(num_embeddings)} categories (and one for the rest), the definition's "
            f"data.num_embeddings says {list(data.num_embeddings)}. It is another dataset; leave num_embeddings out "
            "to take what the files have."
        )


def _pieces(rows: range, num_rows: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of successive pieces of `rows`, each of `num_rows` rows; the last piece has the rows that
    remain."""
    return ((start, min(start + num_rows, rows.stop)) for start in rows[::num_rows])


def num_rows_within(row_bytes: int, most: int) -> int:
    """Return the number of rows of `row_bytes` bytes to process at a time: as many as fit _PIECE_BYTES, at least 1,
    at most `most`."""
    return max(1, min(most, _PIECE_BYTES // max(1, row_bytes)))


def _check_options(train_files: Sequence[Path], memory_bytes: int) -> None:
    if not train_files:
        raise ConfigError("no training files. Give them after --train.")
    if memory_bytes < MIN_MEMORY_BYTES:
        raise ConfigError(f"--memory is {memory_bytes} bytes, expected at least {MIN_MEMORY_BYTES >> 20} MiB.")


def _look_at_begin(paths: Sequence[Path], reader: Reader, max_malformed: float) -> None:
    """Parse the first rows of each file. Raises ConfigError or DatasetError for a file that cannot be prepared."""
    for path in paths:
        tally = _Tally(max_malformed, file_rows=[0])
        for rows in islice(reader.read(path, lambda count: None), 1):
            tally.add(path, rows)
        tally.check(is_last=tally.file_rows == [0])


def _begin_spool(
    folder: Path,
    columns: Mapping[str, SpoolColumn],
    reader: Reader,
    kept: SpoolProgress,
    on_note: Callable[[str], None],
) -> Spool:
    """Open the parsed rows that a killed preparation of the same files left on disk, and copy its progress to `kept`;
    if there are none, open an empty spool."""
    found = read_progress(folder / FOLDER, kept.asked)
    if found is not None and found.is_of(columns, len(reader.features)) and _has_dictionaries(folder, reader, found):
        files = {name: (file, SpoolColumn(dtype, width)) for name, (file, dtype, width) in found.columns.items()}
        with suppress(OSError, ValueError):
            spool = Spool(folder, columns, files, found.num_rows)
            for member in fields(SpoolProgress):
                setattr(kept, member.name, getattr(found, member.name))
            done = f"{len(found.numbered)} of {len(reader.features)} categories are numbered"
            on_note(
                f"going on with a preparation that was killed: {found.num_rows:,} rows are parsed"
                + (f", {done}" if found.is_parsed else "")
            )
            return spool
    return Spool(folder, columns)


def _has_dictionaries(folder: Path, reader: Reader, found: SpoolProgress) -> bool:
    """Return whether all dictionary files that the progress `found` relies on exist; true if the reader stores no
    dictionaries."""
    counted = _dictionaries_of(reader) if reader.keeps_dictionaries else []
    sizes = [num_rows for num_rows, _ in found.numbered]
    return all(has_dictionary(folder, number, sizes[number]) for number in counted if number < len(sizes))


@dataclass(slots=True)
class _Recorder:
    """Recorder that writes a preparation's progress to disk whenever _KEPT_BYTES more have been processed."""

    spool: Spool
    kept: SpoolProgress
    reader: Reader
    num_bytes: int = 0
    """Bytes processed since progress was recorded last."""

    def add_file(self, num_bytes: int, tally: _Tally) -> None:
        """Note that one more file is parsed; write the progress to disk only if enough bytes were parsed since it was
        written last, since writing waits for the disk."""
        self.kept.tally, self.kept.reader = tally.state, self.reader.state()
        self._add(num_bytes)

    def finish_parsing(self) -> None:
        """Note that all rows are parsed and in their final order."""
        # Sorting has removed the progress from disk: all bytes count again as not yet recorded.
        if not self.kept.is_parsed:
            self.kept.is_parsed = True
            self._add(0 if self.spool.is_kept else self.spool.num_bytes)

    def add_category(self, num_rows: int, look: ColumnLook, num_bytes: int) -> None:
        """Note that the values of one more category column are replaced by ids; write the progress to disk if enough
        bytes were processed since it was written last."""
        self.kept.numbered.append((num_rows, look))
        self._add(num_bytes)

    def forget(self) -> None:
        """Remove the preparation's progress from disk: while rows are sorted in place, a preparation cannot be
        continued."""
        self.spool.forget()

    def _add(self, num_bytes: int) -> None:
        self.num_bytes += num_bytes
        if self.num_bytes < _KEPT_BYTES:
            return
        self.spool.sync()
        self.kept.num_rows, self.kept.columns = self.spool.num_rows, self.spool.files
        write_progress(self.spool.folder, self.kept)
        self.spool.drop_stale()
        self.num_bytes = 0


def _parse(
    paths: Sequence[Path],
    spool: Spool,
    reader: Reader,
    max_malformed: float,
    report: Progress,
    saved: _Recorder,
) -> _Tally:
    """Append the rows of all files to the spool (on disk), except files that a killed preparation had parsed."""
    tally = _Tally(max_malformed)
    tally.restore(saved.kept.tally)
    reader.restore(saved.kept.reader)
    if reader.has_times and spool.num_rows:
        tally.last = spool.read(TIME, spool.num_rows - 1, spool.num_rows)
    sizes = [path.stat().st_size for path in paths]
    num_done = len(tally.file_rows)
    read_bytes, total_bytes = sum(sizes[:num_done]), max(1, sum(sizes))

    def on_bytes(count: int) -> None:
        nonlocal read_bytes
        read_bytes += count
        report("parsing", read_bytes / total_bytes)

    for path, num_bytes in [*zip(paths, sizes, strict=True)][num_done:]:
        tally.file_rows.append(0)
        for rows in reader.read(path, on_bytes):
            tally.add(path, rows)
            categories = {category_name(number): values for number, values in enumerate(rows.categories)}
            times = {} if rows.times is None else {TIME: rows.times}
            spool.append({"labels": rows.labels, "dense": rows.dense, **categories, **times})
        if (source := reader.source()) is not None:
            tally.sources.append(source)
        saved.add_file(num_bytes, tally)
    tally.check(is_last=True)
    spool.flush()
    return tally


def _sort(spool: Spool, data: DataConfig, reader: Reader) -> None:
    widest = max([2 * data.num_dense, 4, *(feature.width for feature in reader.features)])
    sort_rows(spool, TIME, num_rows_within(16 * widest, _COLUMN_ROWS))


def _read_times(spool: Spool) -> Iterator[NDArray[Any]]:
    return (spool.read(TIME, start, stop) for start, stop in _pieces(range(spool.num_rows), _COLUMN_ROWS))


def _check_splits(data: DataConfig, spool: Spool, splits: Mapping[str, range]) -> dict[str, float]:
    """Return the share of positive labels, or the mean of soft labels, of each split.

    Raises DatasetError for splits of wrong sizes, or with all labels equal.
    """
    shares = {}
    for split, wanted in (("train", data.train_samples), ("eval", data.eval_samples)):
        found = len(splits[split])
        if found == 0:
            raise DatasetError(f"the files give no {split} samples ({spool.num_rows} rows in all).")
        if wanted is not None and wanted != found:
            raise DatasetError(
                f"the files give {found} {split} samples, the definition's data.{split}_samples is {wanted}: "
                "other files than the benchmark's."
            )
        positives, lowest, highest = 0.0, 1.0, 0.0
        for start, stop in _pieces(splits[split], _COLUMN_ROWS):
            labels = spool.read("labels", start, stop)
            positives += float(labels.sum(dtype=np.float64))
            lowest, highest = min(lowest, float(labels.min())), max(highest, float(labels.max()))
        if lowest == highest:
            raise DatasetError(
                f"all {found:,} {split} labels are {lowest:g}: nothing can be learnt or measured. Give "
                "more rows, or say otherwise in data.parameters which rows evaluate, or which labels are 1."
            )
        shares[split] = positives / found
    return shares


def _look_at_shares(spool: Spool, splits: Mapping[str, range]) -> SoftLook:
    """Return the statistics of a dataset's soft labels (shares from 0 to 1). The labels of each split must not all be
    equal."""
    num_rows, total, squares = 0, 0.0, 0.0
    for start, stop in _pieces(range(splits["eval"].stop), _COLUMN_ROWS):
        labels = spool.read("labels", start, stop).astype(np.float64)
        num_rows += len(labels)
        total, squares = total + float(labels.sum()), squares + float(np.square(labels).sum())
    first = splits["eval"].start
    labels = spool.read("labels", first, min(splits["eval"].stop, first + MOST_ROWS))
    best = rank_auc(labels, labels)
    variance = max(0.0, squares / num_rows - (total / num_rows) ** 2)
    return SoftLook(best_auc=0.5 if best is None else best, variance=variance)


def _number(
    spool: Spool,
    splits: Mapping[str, range],
    reader: Reader,
    memory_bytes: int,
    report: Progress,
    saved: _Recorder,
    folder: Path,
) -> tuple[tuple[int, ...], list[ColumnLook]]:
    """Replace the values of every category column by ids; return the number of rows of each embedding table, and the
    counts of each column's cells."""
    for number, feature in [*enumerate(reader.features)][len(saved.kept.numbered) :]:
        name, num_rows = category_name(number), max(1, _COLUMN_ROWS // feature.width)
        if feature.num_hashed is None:
            coder: Dictionary | HashedIds
            coder, num_distinct = _count(spool, name, feature, splits["train"], reader, memory_bytes)
            if reader.keeps_dictionaries:
                keep_dictionary(folder, number, coder)
        else:
            coder, num_distinct = HashedIds(feature.num_hashed, feature.missing), None
        look = ColumnLook(feature.name, "category", num_distinct=num_distinct, width=feature.width)
        spool.replace(
            name,
            SpoolColumn("int32", feature.width),
            _encode(spool, name, feature, coder, splits, num_rows, look),
            keeps_old=True,
        )
        saved.add_category(coder.num_embeddings, look, 4 * feature.width * spool.num_rows)
        report("numbering", (number + 1) / len(reader.features))
    return tuple(size for size, _ in saved.kept.numbered), [look for _, look in saved.kept.numbered]


def _encode(
    spool: Spool,
    name: str,
    feature: Feature,
    coder: "Dictionary | HashedIds",
    splits: Mapping[str, range],
    num_rows: int,
    look: ColumnLook,
) -> Iterator[NDArray[np.int32]]:
    """Yield the ids of a category column's values, piece by piece; missing and unknown cells are counted in
    `look`."""
    rates = ValueRates(coder.num_embeddings) if feature.width == 1 else None
    for start, stop in _pieces(range(splits["eval"].stop), num_rows):
        values = _values(spool, name, start, stop, feature)
        ids = coder.encode(values)
        is_unknown = (ids == RARE_ID).reshape(-1, feature.width).all(axis=1)
        is_missing = np.zeros(len(is_unknown), np.bool_)
        if feature.missing is not None:
            is_missing = (values == feature.missing).reshape(-1, feature.width).all(axis=1)
        for number, split in enumerate(("train", "eval")):
            first, last = (min(max(row, start), stop) for row in (splits[split].start, splits[split].stop))
            there = slice(first - start, last - start)
            look.add(number, is_missing[there], is_unknown[there])
            if rates is not None and first < last and (rates.num_wanted if split == "train" else look.auc is None):
                labels, some = spool.read("labels", first, min(last, first + MOST_ROWS)), ids[there][:MOST_ROWS]
                if split == "train":
                    rates.add(some, labels)
                else:
                    look.auc = rates.auc(some, labels)
        yield ids


def _look_at_numbers(spool: Spool, splits: Mapping[str, range], reader: Reader, data: DataConfig) -> list[ColumnLook]:
    looks = [ColumnLook(name, "number") for name in reader.numbers]
    for number, split in enumerate(("train", "eval") if looks else ()):
        for start, stop in _pieces(splits[split], num_rows_within(8 * data.num_dense, _STORE_ROWS)):
            values = spool.read("dense", start, stop).reshape(stop - start, data.num_dense)
            is_missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
            for place, look in enumerate(looks):
                look.add(number, is_missing[:, place])
                if split == "eval" and start == splits["eval"].start:
                    labels = spool.read("labels", start, stop)
                    look.auc = auc_of_number(values[:, place].astype(np.float64), labels)
    return looks


@dataclass(frozen=True, slots=True)
class HashedIds:
    """Encoding of category values as ids without a dictionary. The values are hashes; an id is the hash modulo (table
    rows - 1), plus 1."""

    num_embeddings: int
    missing: int | None

    def encode(self, column: NDArray[Any]) -> NDArray[np.int32]:
        ids: NDArray[np.int32] = (column % column.dtype.type(self.num_embeddings - 1)).astype(np.int32) + np.int32(1)
        if self.missing is not None:
            ids[column == self.missing] = RARE_ID
        return ids


def _count(
    spool: Spool, name: str, feature: Feature, rows: range, reader: Reader, memory_bytes: int
) -> tuple[Dictionary, int]:
    """Return the dictionary of a category column, and the number of its distinct values in training."""
    bytes_per_value = BYTES_PER_VALUE[reader.category_dtype]
    max_values = (memory_bytes - WORKING_BYTES) // bytes_per_value
    counted = ValueCounts.empty(reader.category_dtype)
    for start, stop in _pieces(rows, max(1, _COLUMN_ROWS // feature.width)):
        counted = counted.add(_values(spool, name, start, stop, feature), start * feature.width)
        if len(counted.values) > max_values:
            raise ConfigError(
                f"{feature.name} has more than {max_values:,} categories within {stop:,} rows, more than --memory "
                f"has room for. Give more --memory (about {bytes_per_value} bytes per category of the largest "
                f"column), or {feature.remedy}."
            )
    is_value = True if feature.missing is None else counted.values != feature.missing
    return number_values(counted, feature.min_count, feature.missing), int(np.sum(is_value & (counted.counts > 0)))


def _values(spool: Spool, name: str, start: int, stop: int, feature: Feature) -> NDArray[Any]:
    column = spool.read(name, start, stop).reshape(-1)
    if feature.modulo is not None:
        column %= column.dtype.type(min(feature.modulo, np.iinfo(column.dtype).max))
    return column


def _write(
    spool: Spool, folder: Path, data: DataConfig, splits: Mapping[str, range], reader: Reader, report: Progress
) -> None:
    names = [category_name(number) for number in range(len(reader.features))]
    dense_bytes = 8 * data.num_dense
    finish = reader.finish_dense(
        spool.read("dense", start, stop).reshape(stop - start, data.num_dense)
        for start, stop in _pieces(splits["train"], num_rows_within(dense_bytes, _STORE_ROWS))
    )
    num_rows = num_rows_within(dense_bytes + 4 * sum(feature.width for feature in reader.features), _STORE_ROWS)
    for split, rows in splits.items():
        layout = SOFT_CLICKS if data.has_soft_labels else CLICKS
        writer = SplitWriter(folder, split, len(rows), data, layout)
        for start, stop in _pieces(rows, num_rows):
            ids = [spool.read(name, start, stop).reshape(stop - start, -1) for name in names]
            chunk = Chunk(
                spool.read("labels", start, stop),
                finish(spool.read("dense", start, stop).reshape(stop - start, data.num_dense)),
                np.concatenate(ids, axis=1),
            )
            writer.write(start - rows.start, chunk)
            report("writing", stop / splits["eval"].stop)
        writer.close()
