"""The second opinion: the official compliance checker, in one process of its own that can do no harm.

It parses hostile input with code that evaluates strings from YAML and writes into its working directory, so it
runs on copies in a temporary directory, with a clean environment, limits on memory, time and file size, and is
killed on timeout. Its verdict, or its crash, is reported as its own.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from rules.log import printable

TIMEOUT_S = 120.0
MAX_LOG_BYTES = 64 << 20
_MEMORY_BYTES = 2 << 30
_FILE_BYTES = 128 << 20
_MESSAGE_CHARS = 400
OpinionOutcome = Literal["valid", "invalid", "crashed", "timeout", "not asked"]

_WORKER = r"""
import json, logging, re, resource, sys
files, ruleset, memory, seconds, size = json.loads(sys.stdin.read())
for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, size),
                     (resource.RLIMIT_CORE, 0)):
    try:
        resource.setrlimit(limit, (value, value))
    except (ValueError, OSError):
        pass
logging.disable(logging.CRITICAL)
from mlperf_logging.compliance_checker import mlp_compliance as mc
for name in files:
    mc.enqueued_configs.clear()
    checker = mc.make_checker('training', ruleset, False, False)
    try:
        lines = mc.mlp_parser.parse_file(name, ruleset=ruleset)[0]
        named = [one for one in lines if one.key in ('submission_division', 'submission_benchmark')]
        words = [str(one.value['value']) for one in named]
        if not all(re.fullmatch('[A-Za-z0-9_]{0,64}', word) for word in words):
            # It would open, and run, a rule file at a path that the log makes up.
            said = ['the division or benchmark that the log names is no plain word']
            print(json.dumps([name, {'outcome': 'not asked', 'messages': said}]), flush=True)
            continue
        valid = mc.main(name, f'training_{ruleset}/common.yaml', checker)[0]
        said = [*checker.not_overwritable, *checker.overwritable.values(), *checker.warnings.values()]
        answer = {'outcome': 'valid' if valid else 'invalid', 'messages': [str(one)[:2000] for one in said[:50]]}
    except Exception as error:
        answer = {'outcome': 'crashed', 'messages': [f'{type(error).__name__}: {error}'[:2000]]}
    print(json.dumps([name, answer]), flush=True)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class OfficialOpinion:
    """What the official checker said of one log: its verdict, its crash, or why it was not asked."""

    tool: str
    ruleset: str
    outcome: OpinionOutcome
    messages: tuple[str, ...] = ()


def ask_official_checker(
    logs: Sequence[str | Path], round_name: str, timeout_s: float = TIMEOUT_S
) -> tuple[OfficialOpinion, ...]:
    """Opinions on `logs` in order, by the rules of `round_name` (such as "5.1"). Never raises for their content."""
    tool, ruleset = _tool(), f"{round_name}.0"

    def opinion(outcome: OpinionOutcome, *messages: str) -> OfficialOpinion:
        return OfficialOpinion(tool=tool, ruleset=ruleset, outcome=outcome, messages=messages)

    if tool.endswith("missing"):
        return tuple(opinion("not asked", "mlperf-logging is not installed") for _ in logs)
    with tempfile.TemporaryDirectory(prefix="dlrmbench-official-") as folder:
        names: list[str | None] = []
        for index, path in enumerate(logs):
            source = Path(path)
            is_small = source.is_file() and source.stat().st_size <= MAX_LOG_BYTES
            names.append(f"{index}.txt" if is_small else None)
            if is_small:
                shutil.copyfile(source, Path(folder) / f"{index}.txt")
        answers, ending = _run([name for name in names if name is not None], ruleset, folder, timeout_s)
    found = []
    for name in names:
        if name is None:
            found.append(opinion("not asked", f"the log is larger than {MAX_LOG_BYTES} bytes"))
        elif name in answers:
            outcome, messages = answers[name]
            found.append(opinion(outcome, *messages))
        else:
            found.append(opinion("timeout" if ending.startswith("stopped") else "crashed", ending))
    return tuple(found)


def _tool() -> str:
    try:
        return f"mlperf_logging compliance_checker {version('mlperf-logging')}"
    except PackageNotFoundError:
        return "mlperf_logging compliance_checker, missing"


def _run(
    names: list[str], ruleset: str, folder: str, timeout_s: float
) -> tuple[dict[str, tuple[OpinionOutcome, list[str]]], str]:
    """Answers by file name, and how the process ended."""
    request = json.dumps([names, ruleset, _MEMORY_BYTES, int(timeout_s) + 1, _FILE_BYTES])
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": folder, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(request.encode(), timeout=timeout_s)
        last = err.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        ending = printable(last[0])[:_MESSAGE_CHARS]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        ending = f"stopped after {timeout_s:g} s"
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    answers: dict[str, tuple[OpinionOutcome, list[str]]] = {}
    for line in out.decode("utf-8", "replace").splitlines():
        try:
            name, answer = json.loads(line)
            answers[name] = (answer["outcome"], [_shorten(message) for message in answer["messages"]])
        except (ValueError, KeyError, TypeError):
            continue
    return answers, ending


def _shorten(message: str) -> str:
    """The message without the dump of the checker's whole state that follows it."""
    text = " ".join(message.split("\ncurrent context")[0].split())
    return printable(text)[:_MESSAGE_CHARS]
