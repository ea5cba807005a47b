"""Criteo's text files (Kaggle's train.txt, the 1TB set's day_<k>, plain or .gz) to the memory-mapped store.

One pass parses the text into column files; then, feature by feature, one pass over a column counts its values in the
training rows and one replaces them by ids; a last pass writes the store. Rows keep the order of the files. Memory
stays below `memory_bytes` whatever the files' size; the disk holds the columns (157 bytes per row) beside the store
(as much) until the end.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from reference_models.config.records import PositiveCount, read_section, refuse
from reference_models.config.sections import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE, DataConfig
from reference_models.data.criteo.dictionary import BYTES_PER_VALUE, Dictionary, ValueCounts, number_values
from reference_models.data.criteo.lines import SourceFile, TextSource
from reference_models.data.criteo.parse import parse_block
from reference_models.data.criteo.spool import Spool, category_name
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.manifest import MANIFEST, write_manifest
from reference_models.data.store.store import Chunk, SplitWriter, unfinished
from reference_models.process.errors import ConfigError, DatasetError

MAX_MALFORMED = 0.001
MEMORY_BYTES = 1 << 30
MIN_MEMORY_BYTES = 1 << 29
_WORKING_BYTES = 256 << 20
"""Interpreter, libraries and buffers; what is left of `memory_bytes` is for one feature's dictionary."""
_NUM_NAMED = 10
_COLUMN_ROWS = 1 << 20
_STORE_ROWS = 1 << 16

Progress = Callable[[str, float], None]
"""Called with the stage and its share done, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareParameters:
    """What makes a dataset of given rows. Changing any of it makes another dataset."""

    split: Literal["days", "last_file", "files"]
    """`days`: all rows are cut into `num_days` equal days (earlier ones take the remainder); the last day's first
    half is for evaluation, its second half unused, all other days train. `last_file`: the same with one file per day.
    `files`: --train and --eval as they are given."""
    num_days: Annotated[int, Meta(ge=2)] | None = None
    """Days that the rows are cut into; with `days` alone, and needed there."""
    min_frequency: PositiveCount = 1
    """Values seen less often in training share id 0."""
    max_ind_range: PositiveCount | None = None
    """Values are taken modulo this before anything else."""


def parse_parameters(data: DataConfig) -> PrepareParameters:
    """Raises ConfigError naming the field, what was given and what is allowed."""
    if (data.num_dense, data.num_sparse) != (13, 26):
        raise ConfigError(
            f"data has {data.num_dense} dense and {data.num_sparse} sparse features, expected Criteo's 13 and 26."
        )
    parameters = read_section("data.parameters", data.parameters, PrepareParameters)
    if (parameters.split == "days") != (parameters.num_days is not None):
        is_missing = parameters.num_days is None
        expected = Annotated[int, Meta(ge=2)] if is_missing else "nothing, except with split = 'days'"
        raise refuse("data.parameters", data.parameters, "num_days", expected)
    return parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDataset:
    """What a preparation made and left out."""

    folder: Path
    dataset_sha256: str
    num_samples: dict[str, int]
    num_unused: int
    """Well-formed rows in neither split: the second half of the last day."""
    num_embeddings: tuple[int, ...]
    num_lines: int
    num_malformed: int
    malformed: tuple[str, ...]
    stages_s: dict[str, float]


@dataclass(slots=True)
class _Tally:
    """What the parsing pass has met so far."""

    max_malformed: float
    num_lines: int = 0
    num_malformed: int = 0
    named: list[str] = field(default_factory=list)
    file_rows: list[int] = field(default_factory=list)
    sources: list[SourceFile] = field(default_factory=list)

    def check(self, *, is_last: bool) -> None:
        # Half way, only what is plainly another format stops the pass: bad lines may stand close together.
        allowed = self.max_malformed * self.num_lines if is_last else max(10_000, 0.5 * self.num_lines)
        if self.num_malformed > allowed:
            share = f"{self.num_malformed:,} of {self.num_lines:,} lines are malformed"
            raise DatasetError(
                f"{self.named[0]}; {share}, more than the {100 * self.max_malformed:g} % allowed. Repair the file or "
                "allow more with --max-malformed (malformed lines are left out)."
                + "".join(f"\n  {name}" for name in self.named[1:])
            )


def prepare_tsv(
    train_files: Sequence[Path],
    eval_files: Sequence[Path],
    data: DataConfig,
    folder: Path,
    *,
    max_malformed: float = MAX_MALFORMED,
    memory_bytes: int = MEMORY_BYTES,
    on_progress: Progress | None = None,
) -> PreparedDataset:
    """Make the dataset `data` in `folder` from text files.

    The manifest is written last, so that an interrupted preparation is no dataset; run it again. Raises ConfigError
    for parameters or options that cannot be served, DatasetError for files that are missing, damaged, too malformed
    or not what the definition says, OSError when the disk is full.
    """
    parameters = parse_parameters(data)
    _check_options(train_files, eval_files, parameters, folder, memory_bytes)
    report = on_progress or (lambda stage, share: None)
    started_s = time.monotonic()
    with unfinished(folder, CLICKS), Spool(folder) as spool:
        tally = _parse(train_files, eval_files, spool, max_malformed, report)
        parsed_s = time.monotonic()
        splits = split_rows(tally.file_rows, len(train_files), parameters)
        _check_splits(data, spool, splits)
        num_embeddings = _number(spool, splits, parameters, memory_bytes, report)
        if data.num_embeddings is not None and data.num_embeddings != num_embeddings:
            raise DatasetError(
                f"{train_files[0]}: the files have {list(num_embeddings)} categories (and one for the rest), the "
                f"definition's data.num_embeddings says {list(data.num_embeddings)}. It is another dataset; leave "
                "num_embeddings out to take what the files have."
            )
        numbered_s = time.monotonic()
        _write(spool, folder, data, splits, report)
        num_samples = {split: len(rows) for split, rows in splits.items()}
        digest = write_manifest(
            folder,
            CLICKS,
            {
                "kind": data.kind,
                "name": data.name,
                "splits": num_samples,
                "num_dense": NUM_CRITEO_DENSE,
                "num_embeddings": list(num_embeddings),
                "multi_hot": list(data.multi_hot),
                "parameters": {key: value for key, value in asdict(parameters).items() if value is not None},
                "num_lines": tally.num_lines,
                "num_malformed": tally.num_malformed,
                "malformed": tally.named,
                "sources": [
                    {"name": source.path.name, "bytes": source.num_bytes, "sha256": source.sha256}
                    for source in tally.sources
                ],
            },
        )
        done_s = time.monotonic()
        return PreparedDataset(
            folder=folder,
            dataset_sha256=digest,
            num_samples=num_samples,
            num_unused=spool.num_rows - splits["eval"].stop,
            num_embeddings=num_embeddings,
            num_lines=tally.num_lines,
            num_malformed=tally.num_malformed,
            malformed=tuple(tally.named),
            stages_s={
                "parsing": parsed_s - started_s,
                "numbering": numbered_s - parsed_s,
                "writing": done_s - numbered_s,
            },
        )


def split_rows(file_rows: Sequence[int], num_train_files: int, parameters: PrepareParameters) -> dict[str, range]:
    """Return the rows of each split, counted through all files one after another.

    `days` and `last_file` follow data_utils.py: rows are dealt to days with the remainder to the first ones, and of
    the last day the first half, rounded up, is "test", which the reference evaluates.
    """
    total = sum(file_rows)
    if parameters.split == "files":
        num_train, eval_stop = sum(file_rows[:num_train_files]), total
    else:
        last_day = file_rows[-1] if parameters.num_days is None else total // parameters.num_days
        num_train, eval_stop = total - last_day, total - last_day + (last_day + 1) // 2
    return {"train": range(num_train), "eval": range(num_train, eval_stop)}


def _pieces(rows: range, num_rows: int = _COLUMN_ROWS) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each `num_rows` consecutive rows."""
    return ((start, min(start + num_rows, rows.stop)) for start in rows[::num_rows])


def _check_options(
    train_files: Sequence[Path],
    eval_files: Sequence[Path],
    parameters: PrepareParameters,
    folder: Path,
    memory_bytes: int,
) -> None:
    if not train_files:
        raise ConfigError("no training files. Give them after --train.")
    if parameters.split == "files" and not eval_files:
        raise ConfigError("data.parameters.split is 'files': give the evaluation files with --eval.")
    if parameters.split != "files" and eval_files:
        raise ConfigError(
            f"data.parameters.split is {parameters.split!r}: evaluation rows come from the end of the --train files. "
            "Leave --eval out, or write your own benchmark with split = 'files'."
        )
    if parameters.split == "last_file" and len(train_files) < 2:
        raise ConfigError("data.parameters.split is 'last_file': give at least two files after --train, in order.")
    if memory_bytes < MIN_MEMORY_BYTES:
        raise ConfigError(f"--memory is {memory_bytes} bytes, expected at least {MIN_MEMORY_BYTES >> 20} MiB.")
    if (folder / MANIFEST).exists():
        raise ConfigError(
            f"{folder}: holds a finished dataset already. Use it, or remove it, or give another --data folder."
        )


def _parse(
    train_files: Sequence[Path], eval_files: Sequence[Path], spool: Spool, max_malformed: float, report: Progress
) -> _Tally:
    tally = _Tally(max_malformed)
    paths = [*train_files, *eval_files]
    read_bytes, total_bytes = 0, max(1, sum(path.stat().st_size for path in paths if path.is_file()))

    def on_bytes(count: int) -> None:
        nonlocal read_bytes
        read_bytes += count
        report("parsing", read_bytes / total_bytes)

    for path in paths:
        source = TextSource(path, on_bytes)
        rows_before, line = spool.num_rows, 1
        for block in source:
            rows = parse_block(block, max_named=_NUM_NAMED - len(tally.named))
            tally.named += [f"{path}:{line + item.line}: {item.reason}" for item in rows.malformed]
            tally.num_lines += rows.num_lines
            tally.num_malformed += rows.num_malformed
            tally.check(is_last=False)
            line += rows.num_lines
            spool.append(rows)
        tally.file_rows.append(spool.num_rows - rows_before)
        tally.sources.append(source.source)
    tally.check(is_last=True)
    spool.flush()
    return tally


def _check_splits(data: DataConfig, spool: Spool, splits: Mapping[str, range]) -> None:
    for split, wanted in (("train", data.train_samples), ("eval", data.eval_samples)):
        found = len(splits[split])
        if found == 0:
            raise DatasetError(f"the files give no {split} samples ({spool.num_rows} rows in all).")
        if wanted is not None and wanted != found:
            raise DatasetError(
                f"the files give {found} {split} samples, the definition's data.{split}_samples is {wanted}: "
                "other files than the benchmark's."
            )
        pieces = _pieces(splits[split])
        positives = sum(int(spool.read("labels", np.uint8, start, stop).sum()) for start, stop in pieces)
        if positives in (0, found):
            raise DatasetError(
                f"all {found} {split} labels are {positives and 1}: nothing can be learnt or measured."
            )


def _number(
    spool: Spool, splits: Mapping[str, range], parameters: PrepareParameters, memory_bytes: int, report: Progress
) -> tuple[int, ...]:
    """Replace every category column by ids; return the tables' sizes."""
    max_values = (memory_bytes - _WORKING_BYTES) // BYTES_PER_VALUE
    num_embeddings = []
    for feature in range(NUM_CRITEO_SPARSE):
        dictionary = _count(spool, feature, splits["train"], parameters, max_values)
        num_embeddings.append(dictionary.num_embeddings)
        name = category_name(feature)
        for start, stop in _pieces(range(splits["eval"].stop)):
            spool.overwrite(name, start, dictionary.encode(_capped(spool, name, start, stop, parameters)))
        report("numbering", (feature + 1) / NUM_CRITEO_SPARSE)
    return tuple(num_embeddings)


def _count(spool: Spool, feature: int, rows: range, parameters: PrepareParameters, max_values: int) -> Dictionary:
    counted = ValueCounts.empty()
    for start, stop in _pieces(rows):
        counted = counted.add(_capped(spool, category_name(feature), start, stop, parameters), start)
        if len(counted.values) > max_values:
            raise ConfigError(
                f"column {2 + NUM_CRITEO_DENSE + feature} has more than {max_values:,} categories within "
                f"{stop:,} rows, more than --memory has room for. Give more --memory (about {BYTES_PER_VALUE} bytes "
                "per category of the largest column), or cap it with data.parameters.max_ind_range."
            )
    return number_values(counted, parameters.min_frequency)


def _capped(
    spool: Spool, name: str, start: int, stop: int, parameters: PrepareParameters
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    column = spool.read(name, np.uint32, start, stop)
    if parameters.max_ind_range is not None:
        column %= np.uint32(min(parameters.max_ind_range, 2**32 - 1))
    return column


def _write(spool: Spool, folder: Path, data: DataConfig, splits: Mapping[str, range], report: Progress) -> None:
    categories = [category_name(feature) for feature in range(NUM_CRITEO_SPARSE)]
    for split, rows in splits.items():
        writer = SplitWriter(folder, split, len(rows), data)
        for start, stop in _pieces(rows, _STORE_ROWS):
            chunk = Chunk(
                spool.read("labels", np.uint8, start, stop),
                spool.read("dense", np.float32, start, stop, NUM_CRITEO_DENSE),
                np.stack([spool.read(name, np.int32, start, stop) for name in categories], axis=1),
            )
            writer.write(start - rows.start, chunk)
            report("writing", stop / splits["eval"].stop)
        writer.close()
