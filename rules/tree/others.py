"""Recognises results of MLPerf's other benchmarks, which this harness does not define. They are listed by name and
not judged.

A log states its benchmark (`submission_benchmark`). If no log in a directory does, the directory's name counts. The
inventory leaves these results out of its result sets, so that no command judges, scores or draws them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rules.benchmarks.loader import shipped_names
from rules.logs import keys
from rules.logs.line import TOKEN
from rules.logs.log import MAX_RECORD_BYTES, parse_log
from rules.tree.result_set import ResultSet

OTHER_BENCHMARKS = frozenset(
    {
        "bert", "gnmt", "gpt3", "maskrcnn", "minigo", "resnet", "ssd", "retinanet", "stable_diffusion", "transformer",
        "mask", "ncf", "rnnt", "unet3d", "gnn", "rgat", "llama2_70b_lora", "llama31_405b", "llama31_8b", "flux1",
        "gpt_oss_20b", "deepseekv3_671b", "qwen35_397b_grpo", "cosmoflow", "deepcam", "oc20", "openfold",
    }
)  # fmt: skip
"""Names of benchmarks of MLPerf Training and HPC that this harness does not define (mlperf_logging.benchmark_meta),
and so does not judge."""
WHY_NOT_JUDGED = "an MLPerf benchmark that dlrmbench does not judge"
LOADGEN, JSON_LINES = "a LoadGen log", "a log of JSON lines"
_FORMS = {
    LOADGEN: "one of MLPerf Inference, which dlrmbench does not judge",
    JSON_LINES: "no MLPerf log: each record is text inside of a JSON object, as Docker and journald keep logs. Judge "
    "what 'docker logs CONTAINER' or 'journalctl -o cat' prints",
}
"""Descriptions of logs in other forms than MLPerf Training's (MLPerf Inference's, or records wrapped in JSON): a dict
from the form's name, which is used where a benchmark's name would stand."""
_OF_LOADGEN = re.compile(rb'"namespace": *"mlperf::logging"')
_SUMMARY = b"MLPerf Results Summary"
"""Heading of LoadGen's mlperf_log_summary.txt, between two lines of "="."""
_ESCAPED = re.compile(re.escape(TOKEN) + rb' *\{ *\\"')
_KEY = keys.SUBMISSION_BENCHMARK.encode()
_PREFIX_BYTES = 64
_MAX_BYTES = 64 << 20
"""Maximum bytes of a log that are searched for its benchmark's name."""
_HEADING_BYTES = 256
"""Number of bytes at a log's beginning that are searched for LoadGen's heading."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherSet:
    """Result directory, or single log given as a file, that is not judged: it belongs to one of MLPerf's other
    benchmarks, or has another form. `benchmark` names the benchmark or the form (LOADGEN or JSON_LINES)."""

    path: Path
    benchmark: str
    is_log: bool = False

    @property
    def why(self) -> str:
        """Return the reason why a result directory or log is not judged, as words that continue "<benchmark> is"."""
        return _FORMS.get(self.benchmark, WHY_NOT_JUDGED)

    def __str__(self) -> str:
        return f"{self.benchmark} is {self.why}"


def summarise(others: Sequence[OtherSet]) -> str:
    """Return one line that names MLPerf's other benchmarks, which are not judged, each with its number of result
    sets. For a single set, the line says why that set is not judged."""
    if len(others) == 1:
        return str(others[0])
    numbers = Counter(other.benchmark for other in others)
    names = ", ".join(f"{name} ({number})" for name, number in sorted(numbers.items()))
    return f"{count_others(others)} that dlrmbench does not judge: {names}"


def count_others(others: Sequence[OtherSet]) -> str:
    """Return the number of result directories of other benchmarks in words: "1 result directory of an MLPerf
    benchmark" or "2 result directories of MLPerf benchmarks"."""
    if len(others) == 1:
        return "1 result directory of an MLPerf benchmark"
    return f"{len(others)} result directories of MLPerf benchmarks"


def other_benchmark(result_set: ResultSet, own: str | None = None) -> str | None:
    """Return the name of the other MLPerf benchmark (one that this harness does not define) that a result set belongs
    to. If its logs are no training logs, return their form (LOADGEN or JSON_LINES). None if the set is to be judged.

    A set is judged if its directory is named after one of this harness's benchmarks, or if a definition lies beside
    it, whatever its logs state. It is also judged if a log names `own` (a benchmark of the user's), or a benchmark
    outside of `OTHER_BENCHMARKS`. Last, it is judged if neither a log nor the directory names a benchmark in
    `OTHER_BENCHMARKS`.
    """
    if result_set.benchmark in shipped_names() or result_set.definition_file is not None:
        return None
    named = (result_set.benchmark or "").lower()
    found = named if named in OTHER_BENCHMARKS else None
    for log in result_set.logs:
        if (name := logged_benchmark(log)) is not None:
            if (name not in OTHER_BENCHMARKS and name not in _FORMS) or name == own:
                return None
            found = name
    return None if found == own else found


def logged_benchmark(path: Path) -> str | None:
    """Return the first benchmark that a log names, without reading the rest of the log. LOADGEN or JSON_LINES if the
    file is not a training log. None if it names no benchmark or cannot be read."""
    num_bytes = 0
    try:
        with path.open("rb") as file:
            while num_bytes < _MAX_BYTES and (line := file.readline(MAX_RECORD_BYTES)):
                num_bytes += len(line)
                if line.strip() == _SUMMARY and num_bytes < _HEADING_BYTES:
                    return LOADGEN
                if TOKEN in line and (form := _form_of(line)) is not None:
                    return form
                if _KEY in line and isinstance(name := parse_log([line], "").value(keys.SUBMISSION_BENCHMARK), str):
                    return name
    except OSError:
        return None
    return None


def _form_of(line: bytes) -> str | None:
    """Return the form (LOADGEN or JSON_LINES) of a log, recognised by one of its lines that contains a record; None
    for a training log."""
    if line.lstrip().startswith(b"{") and _ESCAPED.search(line):
        return JSON_LINES
    return LOADGEN if TOKEN in line[:_PREFIX_BYTES] and _OF_LOADGEN.search(line) else None
