"""Measure reference run sets on this system, and pack them as an archive (bundle) with which others compare their
systems.

There are two run sets for each benchmark and for each of the implementations `reference` and `optimized`: one trains
to the target quality, one measures throughput. Each run set is checked as soon as it is made. The command ends if a
run set is INVALID, or if its speed varies too much between processes.
"""

import getpass
import json
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness import api
from harness.extensions.system_model.rates import measure_here
from harness.foundation.errors import ExitCode, HarnessError
from harness.planning.hardware.system import write_system
from harness.run_sets.environment import Environment
from harness.system.software import environment as describe_environment
from harness.system.software import version_of
from reports.comparison.sources import one_result
from reports.results.bundles import RATES_FILE, SET_FILES, pack
from reports.results.published import WORD
from reports.results.reference_systems import why_no_reference
from rules.records.chain import LAST_FILE, digest_record, first_link
from rules.records.codec import Damage, decode
from rules.records.run_set import RunSetRecord

IMPLEMENTATIONS = ("reference", "optimized")
NUM_STEPS = 100
"""Number of training steps over which each process of a reference run set measures throughput."""
_NAME = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
_OTHER_PATH = re.compile(r'"/(?!sys/|proc/)[^"]*"')
_PLACE = re.compile(r'("(?:dir|path|DLRMBENCH_(?:DATA|OUTPUT|SYSTEMS))": )"/(?:[^"]*/)?([^"/]+)/?"')
"""Regular expression of an entry in a record's JSON whose value is a local path: a folder of datasets, results or
systems, or a file that Python reads when it starts."""


def check_name(name: str) -> None:
    """Raise HarnessError (exit 2) for a name that cannot be the folder of a bundle (archive of a system's
    results)."""
    if not _NAME.fullmatch(name) or len(name) > 60 or name == WORD:
        raise HarnessError(
            f"--bundle {name!r}: expected words of a-z and 0-9 with hyphens, such as amd-epyc-zen3-2-cores, and not "
            f"{WORD!r}.",
            ExitCode.USAGE,
        )


def make_bundle(
    name: str, benchmarks: Sequence[str], data: Path | None, output: Path, say: Callable[[str], None]
) -> bytes:
    """Measure the reference run sets of `benchmarks` on this system, then this system's rates, and return both as an
    archive.

    Run sets are made below `output`, and stay there. Raises HarnessError with exit 6 if a run set is too noisy to
    serve as a reference, and with exit 2 if a file names this host, its user or a folder. Also raises the errors of
    `api.run`.
    """
    refuse_places(without_places(json.dumps(describe_environment())), "the environment")
    environment = Environment.check(data, output)
    folders = [
        folder
        for benchmark in benchmarks
        for implementation in IMPLEMENTATIONS
        for folder in _measure(name, benchmark, implementation, data, output, say)
    ]
    return pack_sets(name, folders, write_system(measure_here(say, environment)))


def _measure(
    name: str, benchmark: str, implementation: str, data: Path | None, output: Path, say: Callable[[str], None]
) -> Iterator[Path]:
    """Measure two reference run sets of one implementation, first runs that train to the target quality, then
    throughput. Yield the folder of each. Raises HarnessError for a noisy run set as soon as it is complete."""
    for label, throughput in ((f"{name}-{implementation}", None), (f"{name}-{implementation}-speed", NUM_STEPS)):
        what = "runs to the target" if throughput is None else "throughput"
        say(f"measuring {benchmark}: {implementation}, {what}")
        folder = api.run(
            benchmark,
            name=label,
            settings={"runtime.implementation": implementation},
            throughput=throughput,
            data=data,
            output=output,
        )
        if (why := why_no_reference(one_result(folder))) is not None:
            raise HarnessError(
                f"{folder}: {why}. No bundle is made. Measure again when nothing else uses this system; 'dlrmbench "
                "doctor' says what makes it noisy.",
                ExitCode.ENVIRONMENT,
            )
        yield folder


def pack_sets(name: str, folders: Sequence[Path], rates: str) -> bytes:
    """Return an archive (bundle) of the run sets in `folders` and of `rates`, the text of the file with the system's
    rates. The archive leaves out the host's name and the folder of the data.

    The record of each run holds the digest of the record of the run before it. If removing a name changes a record,
    the digests in all later records are computed again. Raises HarnessError (exit 2) if a file still names this host,
    its user or a folder.
    """
    files = {RATES_FILE: rates.encode()}
    for folder in folders:
        for member, text in _read_set(folder).items():
            refuse_places(text, str(folder / member))
            files[f"{folder.name}/{member}"] = text.encode()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return pack(name, files, created_utc=created, harness_version=version_of("dlrmbench") or "unknown")


def _read_set(folder: Path) -> dict[str, str]:
    """Return a dict from name to content of those files of a run set that go into a bundle (archive of results).
    Local paths and the host's name are removed, and the hash chain of the runs is made consistent again."""
    found = {path for pattern in SET_FILES for path in folder.glob(pattern) if path.is_file()}
    texts = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in sorted(found)}
    files = {member: without_places(text) for member, text in texts.items()}
    record = decode(folder / "extra" / "run_set.json", RunSetRecord)
    if isinstance(record, Damage):
        raise HarnessError(f"{record}.", ExitCode.INPUT)
    made = {
        json.loads(text).get("previous_sha256"): member
        for member, text in texts.items()
        if member.endswith("/run.json")
    }
    link = changed = first_link(record)
    while (member := made.pop(link, None)) is not None:
        files[member] = files[member].replace(f'"{link}"', f'"{changed}"')
        link, changed = digest_record(texts[member].encode()), digest_record(files[member].encode())
    last = f"extra/{LAST_FILE}"
    if last in files:
        files[last] = files[last].replace(link, changed)
    return files


def refuse_places(text: str, where: str) -> None:
    """Raise HarnessError (exit 2) if a text meant for a bundle names this host, its user or a folder."""
    if named := places_in(text):
        raise HarnessError(
            f"{where}: names {', '.join(named)}, which no bundle may do. Unset the variable that has it, such as "
            "PYTHONPATH; of a user or host that is called like a common word, measure as another user.",
            ExitCode.USAGE,
        )


def without_places(text: str) -> str:
    """Return a file's text without the host's name. Of the paths to data, and to files that Python reads when it
    starts, only the last part is kept."""
    text = _PLACE.sub(r'\1"\2"', text)
    return text.replace(f'"host": {json.dumps(socket.gethostname())}', '"host": ""')


def places_in(text: str) -> list[str]:
    """Return the names in a text that identify this host: host name, user name, and folders, except those of the
    kernel (/proc, /sys)."""
    names = (json.dumps(name) for name in (socket.gethostname(), getpass.getuser()))
    folders = (json.dumps(str(folder))[1:-1] for folder in (Path.home(), Path.cwd()) if folder != Path("/"))
    return [name for name in (*names, *folders) if name in text] + _OTHER_PATH.findall(text)
