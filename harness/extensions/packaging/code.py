"""Add to a package, besides logs and descriptions, the source code of dlrmbench's own runs, and scripts that repeat
these runs.

submission_rules.adoc asks for all source code that turns the data into the quality (5.12), and for the scripts
setup.sh, init_datasets.sh and run_and_time.sh of each system (5.6).
"""

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any

import tomli_w

from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from harness.run_sets.folder import RUN_SET_FILE
from harness.system.code import PACKAGES, code_sha256
from harness.system.software import make_spin_variables
from reference_models.data.registry import find_data
from reference_models.registry import FilePlace, parse_place
from rules.benchmarks.loader import Benchmark
from rules.logs.text import printable, show
from rules.records.codec import encode
from rules.records.run_set import MATMUL_FILE, RunSetRecord

PRODUCT = "dlrmbench"
_SOURCE_SUFFIXES = (".py", ".typed", ".toml", ".json", ".j2", ".css", ".js", ".npz", ".md")
_NOT_MLPERF = (
    "**These are not MLPerf results.** The benchmark is one of dlrmbench's own, on other data and with another\n"
    "target than any benchmark of MLPerf's; its times may not be compared with MLPerf results.\n\n"
)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}\Z")
_OWN_FOLDER = "own"
"""Name of the folder for the user's own files inside the implementation's folder of a package."""
Files = Iterator[tuple[str, str | Path]]
"""Files of a package (submission tree): each path with its text, or with the file to copy."""


def has_source(record: RunSetRecord) -> bool:
    """Return whether the installed code is the code that ran, by digest or, for older run sets, by version."""
    if record.code_sha256 is not None:
        return record.code_sha256 == code_sha256()
    return record.harness_version == version(PRODUCT)


def implementation_of(record: RunSetRecord) -> str:
    """Return the name of the folder of a run set's implementation in a package."""
    place = file_of(record)
    name = _given_implementation(record) if place is None else f"{place.path.stem}-{str(place.sha256)[:12]}"
    return f"{PRODUCT}-{name}"


def file_of(record: RunSetRecord) -> FilePlace | None:
    """Return the file and the object in it that implement the training, where they were given as FILE:OBJECT; None
    for an implementation given by name."""
    return parse_place(_given_implementation(record))


def own_files(record: RunSetRecord) -> dict[str, tuple[str, FilePlace]]:
    """Return the user's own code files that ran, by option, each with its path in the implementation's folder of a
    package."""
    model = record.config.get("runtime.model")
    found = {"implementation": file_of(record), "model": None if model is None else parse_place(str(model.value))}
    folders = {"implementation": _OWN_FOLDER, "model": f"{_OWN_FOLDER}/model"}
    return {
        option: (f"{folders[option]}/{place.path.name}", place)
        for option, place in found.items()
        if place is not None
    }


def is_unchanged(place: FilePlace) -> bool:
    """Return whether the user's code file exists and is unchanged since the run."""
    try:
        return hashlib.sha256(place.path.read_bytes()).hexdigest() == place.sha256
    except OSError:
        return False


def _given_implementation(record: RunSetRecord) -> str:
    return str(record.config["runtime.implementation"].value)


def read_run_set(root: Path) -> RunSetRecord:
    """Return the content of extra/run_set.json, which describes the run set in the folder `root`. Raises HarnessError
    (exit 8) where the file is damaged."""
    path = root / "extra" / RUN_SET_FILE
    record = read_record(path, RunSetRecord)
    entry = record.config.get("runtime.implementation")
    place = None if entry is None else parse_place(str(entry.value))
    name = "" if entry is None else str(entry.value) if place is None else place.path.stem
    if entry is None or not _PLAIN_NAME.match(name):
        found = "missing" if entry is None else f"{show(entry.value)}, no plain name"
        raise HarnessError(f"{path}: config.runtime.implementation is {found}.", ExitCode.INPUT)
    model = record.config.get("runtime.model")
    file = None if model is None else parse_place(str(model.value))
    if model is not None and (file is None or not _PLAIN_NAME.match(file.path.stem)):
        raise HarnessError(f"{path}: config.runtime.model is {show(model.value)}, no plain file.", ExitCode.INPUT)
    return record


def source_files(record: RunSetRecord) -> Files:
    """Yield the source files of a package: dlrmbench's four packages, what pip needs to install them, and the user's
    own files that are unchanged since the runs."""
    root = Path(__file__).resolve().parents[3]
    folders = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix in _SOURCE_SUFFIXES:
                yield str(path.relative_to(root)), path
                folders.append(path.parent.relative_to(root).parts)
    about = metadata(PRODUCT)
    requirements = [text for text in about.get_all("Requires-Dist") or [] if "extra ==" not in text]
    project = {
        "build-system": {"requires": ["setuptools>=77"], "build-backend": "setuptools.build_meta"},
        "project": {
            "name": PRODUCT,
            "version": about["Version"],
            "description": about["Summary"] or PRODUCT,
            "requires-python": about["Requires-Python"] or ">=3.11",
            "license": "Apache-2.0",
            "dependencies": requirements,
            "scripts": {PRODUCT: "harness.cli:main"},
        },
        "tool": {
            "setuptools": {
                "packages": sorted({".".join(parts) for parts in folders}),
                "package-data": {"*": [f"*{suffix}" for suffix in _SOURCE_SUFFIXES if suffix != ".py"]},
            }
        },
    }
    yield "pyproject.toml", tomli_w.dumps(project)
    for inner, place in own_files(record).values():
        if is_unchanged(place):
            yield inner, place.path


def system_files(record: RunSetRecord, benchmark: Benchmark, definition: Path, system: str) -> Files:
    """Yield the files of the package's benchmarks/<benchmark>/<system>/ for one run set."""
    yield f"{system}_{implementation_of(record)}.json", json.dumps(_describe(record, benchmark), indent=1) + "\n"
    yield "README.md", _readme(record, benchmark, system)
    yield "definition.toml", definition
    given = {key: entry.value for key, entry in record.submission.items() if key != "division"}
    yield "submission.toml", tomli_w.dumps({"submission": given})
    yield "requirements.txt", _requirements(record)
    if record.choice is not None and record.choice.matmul is not None:
        yield MATMUL_FILE, encode(record.choice.matmul)
    yield "setup.sh", _setup(record)
    yield "init_datasets.sh", _init_datasets(benchmark)
    yield "run_and_time.sh", _run_and_time(record)


def _describe(record: RunSetRecord, benchmark: Benchmark) -> dict[str, Any]:
    """Return a description of how a run set's implementation ran on its system, to be written as JSON; null stands
    for a value that was not recorded."""
    sections = {
        name: {
            key.partition(".")[2]: entry.value for key, entry in record.config.items() if key.startswith(f"{name}.")
        }
        for name in ("runtime", "train")
    }
    return {
        "implementation": implementation_of(record),
        "harness_version": record.harness_version,
        "harness_commit": record.environment.get("commit"),
        "harness_commit_is_dirty": record.environment.get("commit_is_dirty"),
        "harness_code_sha256": record.code_sha256,
        "command": printable(record.command),
        "benchmark": benchmark.name,
        "benchmark_version": benchmark.version,
        "definition_sha256": benchmark.definition_sha256,
        "dataset_sha256": record.dataset.dataset_sha256,
        "division": record.division,
        "num_runs": record.num_runs,
        "base_seed": record.base_seed,
        "num_threads": record.num_threads,
        **sections,
    }


def _readme(record: RunSetRecord, benchmark: Benchmark, system: str) -> str:
    commit = record.environment.get("commit")
    identity = f"version {record.harness_version}" + (f", commit {commit}" if commit else "")
    if record.environment.get("commit_is_dirty"):
        identity += " with changes that were not committed"
    if record.code_sha256 is not None:
        identity += f", code {record.code_sha256}"
    where = (
        f"Its source is in `../implementations/{implementation_of(record)}/`: `reference_models/` (model,\n"
        "initialisation, optimizer, data preprocessing and order, evaluation), `harness/` (timing and logging),\n"
        "`rules/` (schedule and checks). It is what was installed when the package was made."
        if has_source(record)
        else "Its source is not in this package, which was made by another version; the version and commit above\n"
        "say which source it is."
    )
    return (
        f"# {benchmark.name} on {printable(system)}\n\n"
        + (_NOT_MLPERF if benchmark.status != "official" else "")
        + f"{benchmark.title}. Run by dlrmbench, {printable(identity)}. {where}\n\n"
        "The runs were started with:\n\n"
        f"    {printable(record.command)}\n\n"
        "To run again:\n\n"
        "    ./setup.sh            # once: the versions of requirements.txt, into $VENV (default ./venv)\n"
        "    ./init_datasets.sh    # once: the dataset, into $DATA (default ./data)\n"
        "    ./run_and_time.sh     # the runs, into $OUTPUT (default ./results)\n\n"
        "`definition.toml` is the benchmark as it was run, with every value; `submission.toml` what the submitter\n"
        f"said of the system. The base seed was {record.base_seed}; the runs' seeds are derived from it.\n"
    )


def _requirements(record: RunSetRecord) -> str:
    packages = record.environment.get("packages")
    found = dict(packages) if isinstance(packages, dict) else {}
    pins = {
        name: pin
        for name, pin in found.items()
        if isinstance(pin, str) and name != PRODUCT and _PLAIN_NAME.match(name) and _PLAIN_NAME.match(pin)
    }
    lines = [f"# Python {printable(str(record.environment.get('python')))}"]
    if local := pins.get("torch", "").partition("+")[2]:
        lines.append(f"--extra-index-url https://download.pytorch.org/whl/{local}")
    return "\n".join([*lines, *(f"{name}=={pin}" for name, pin in sorted(pins.items()))]) + "\n"


_HEAD = """#!/usr/bin/env bash
# {purpose}
set -euo pipefail
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
venv=${{VENV:-$PWD/venv}}
"""
_COMMAND = 'PATH="$venv/bin:$PATH"\n'


def _setup(record: RunSetRecord) -> str:
    """Return the script setup.sh, which installs the source from a copy, since pip builds in the source's folder."""
    head = (
        _HEAD.format(
            purpose="One-time configuration: a virtual environment in $VENV (default ./venv) as the runs had."
        )
        + 'python3 -m venv "$venv"\n'
        + '"$venv/bin/python" -m pip install -r "$here/requirements.txt"\n'
    )
    if not has_source(record):
        return head + f'"$venv/bin/python" -m pip install {shlex.quote(f"{PRODUCT}=={record.harness_version}")}\n'
    return (
        head
        + f'cp -R "$here"/../implementations/{shlex.quote(implementation_of(record))} "$venv/source"\n'
        + '"$venv/bin/python" -m pip install "$venv/source"\n'
    )


def _init_datasets(benchmark: Benchmark) -> str:
    data = find_data(str(benchmark.sections["data"].get("kind")))
    verify = 'dlrmbench data verify "$here/definition.toml" --data "${DATA:-data}"\n'
    head = (
        _HEAD.format(purpose="One-time dataset initialisation, into $DATA (default ./data); then its check.")
        + _COMMAND
    )
    if data.generate is not None:
        return head + 'dlrmbench data generate "$here/definition.toml" --data "${DATA:-data}"\n' + verify
    if data.is_prepared:
        usage = "give the text files of the dataset, such as: init_datasets.sh day_0 day_1"
        prepare = 'dlrmbench data prepare "$here/definition.toml" --data "${DATA:-data}" --train "$@"\n'
        return head + f'[ "$#" -gt 0 ] || {{ echo "{usage}" >&2; exit 2; }}\n' + prepare + verify
    return head + "# The files come from MLPerf's own preprocessing; DATA is the folder that holds them.\n" + verify


def _run_and_time(record: RunSetRecord) -> str:
    arguments = [
        "--runs",
        str(record.num_runs),
        "--seed",
        str(record.base_seed),
        "--division",
        record.division,
        "--threads",
        str(record.num_threads),
    ]
    given = {"implementation": shlex.quote(_given_implementation(record))}
    for option, (inner, place) in own_files(record).items():
        where = f"/../implementations/{implementation_of(record)}/{inner}:{place.name}"
        given[option] = f'"$here"{shlex.quote(where)}'
    code = " ".join(f"--{option} {value}" for option, value in given.items())
    if (device := record.config.get("runtime.device")) is not None:
        arguments += ["--device", str(device.value)]
    if record.timeout_s is not None:
        arguments += ["--timeout", str(record.timeout_s)]
    spinning = ""
    if record.choice is not None:
        variables = make_spin_variables(record.choice.spin_count)
        spinning = "".join(f'export {name}="${{{name}:-{value}}}"\n' for name, value in variables.items())
        code += "" if record.choice.matmul is None else f' --matmul "$here/{MATMUL_FILE}"'
    return (
        _HEAD.format(purpose="Runs the benchmark as it was run.")
        + _COMMAND
        + spinning
        + f"# recorded: {printable(record.command)}\n"
        + 'exec dlrmbench run "$here/definition.toml" --config "$here/submission.toml" \\\n'
        + f"  {shlex.join(arguments)} {code} \\\n"
        + '  --data "${DATA:-data}" --output "${OUTPUT:-results}" "$@"\n'
    )
