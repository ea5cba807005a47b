"""Run as the process in which the official checkers answer questions: confined to one folder, one answer per line.

Started by rules.official.process as a script (python -I), with the questions on standard input as JSON; the product
never imports it. The checkers execute code from rule files, whose names come from the logs that the checkers read.
They also write beside their input, and delete files. So before the first question an audit hook forbids this process
to write or delete outside its folder, to read outside of it and of Python's own folders, to start programs, to open
connections, and to import more modules. The hook confines what the checkers do with hostile logs; it is no kernel
sandbox against code written to break out of Python.
"""

import contextlib
import copy  # noqa: F401  (what the checkers would import later)
import ctypes
import encodings.idna
import encodings.latin_1  # noqa: F401
import json
import logging
import math
import os
import pickle
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

MAX_MESSAGES = 50
MESSAGE_CHARS = 2000
KEPT_BYTES = 8 << 20
"""Maximum bytes of all parsed and pickled logs that are cached for the official checkers, and maximum bytes of a log
that is cached."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.lchown", "os.utime", "os.setxattr", "os.removexattr", "os.mkfifo", "os.mknod", "shutil.",
)  # fmt: skip
_LOOKS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")
_NEVER = (
    "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.chdir",
    "os.fchdir", "os.chroot", "os.kill", "os.killpg", "signal.pthread_kill", "pty.", "socket.", "urllib.", "http.",
    "ftplib.", "smtplib.", "ctypes.", "syslog.", "webbrowser.", "sqlite3.",
)  # fmt: skip
_UNSEEN = {
    "os": ("mkfifo", "mknod", "pidfd_open"),
    "posix": ("mkfifo", "mknod", "pidfd_open"),
    "signal": ("pidfd_send_signal",),
    "_signal": ("pidfd_send_signal",),
    "subprocess": ("_fork_exec",),
    "_posixsubprocess": ("fork_exec",),
}
"""Functions of Python without an audit event in every version, which are removed to confine the process."""
_PR_SET_PDEATHSIG = 1
DIVISION, BENCHMARK = "submission_division", "submission_benchmark"
_DLRM_RUNS = 5
_added: list[str] = []
_ADDED = f"asked with {_DLRM_RUNS} runs of dlrm added, which its table of runs lacks"
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_]{0,64}\Z")
Job = dict[str, Any]
Said = tuple[str, list[str], float | None]


class NotAskedError(Exception):
    """Error with the reason why a question to an official checker is not asked after all."""


def limit(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Set limits on memory, processor time, file size, open files and core dumps that the kernel enforces; a limit
    that the system lacks is left out."""
    for kind, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):
            continue


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the process `parent` ends, so that no checker outlives it, whatever it
    is doing; Linux only."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # the parent ended earlier
        os._exit(1)


def confine(folder: str) -> None:
    """Allow this process from now on to write inside `folder` only, to read only there and in Python's own folders,
    and to import only modules that are loaded."""
    for module, names in _UNSEEN.items():
        for name in names if module in sys.modules else ():
            vars(sys.modules[module]).pop(name, None)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # limits all users but root
    home = os.path.realpath(folder)
    python = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path) if path}
    readable = (home, *python, os.path.realpath(os.devnull))

    def refuse_outside(path: object, places: tuple[str, ...], event: str) -> None:
        if isinstance(path, int):  # a descriptor that this process already holds
            return
        real = os.path.realpath(os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ".")
        if not any(real == place or real.startswith(place + os.sep) for place in places):
            raise PermissionError(f"{event}: {real} is outside the folder of copies")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = (*arguments, None, None)[:3]
            writes = bool((flags or 0) & _WRITES) or (isinstance(mode, str) and set(mode) & set("wax+"))
            refuse_outside(path, (home,) if writes else readable, "open")
        elif event == "import":
            raise ImportError(f"import of {arguments[0]} is not allowed here")
        elif event.startswith(_CHANGES):
            for path in arguments:
                if isinstance(path, str | bytes | os.PathLike):
                    refuse_outside(path, (home,), event)
        elif event.startswith(_LOOKS):
            refuse_outside(arguments[0] if arguments else ".", readable, event)
        elif event.startswith(_NEVER):
            raise PermissionError(f"{event} is not allowed here")

    sys.addaudithook(hook)


class Listener(logging.Handler):
    """Collector of the official checkers' log messages, which hold most of their findings."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.records) < 100 * MAX_MESSAGES or record.levelno >= logging.ERROR:
            self.records.append((record.levelno, record.getMessage()[:MESSAGE_CHARS].strip()))

    def messages(self, *levels: int) -> list[str]:
        """Return an official checker's log messages at the given logging levels, in the order in which the levels are
        given."""
        return [text for level in levels for logged, text in self.records if logged == level and text]

    def said(self, words: str) -> bool:
        return any(words in text for _, text in self.records)


@cache
def names_in(log: str, ruleset: str) -> tuple[tuple[str, Any], ...]:
    """Return the division and the benchmark that a log states, as pairs (key, value), as the official checkers' own
    parser reads them."""
    from mlperf_logging.compliance_checker import mlp_parser

    lines = mlp_parser.parse_file(log, ruleset=ruleset)[0]
    return tuple((line.key, line.value["value"]) for line in lines if line.key in (DIVISION, BENCHMARK))


def refuse_invented_names(log: str, ruleset: str) -> None:
    """Raise NotAskedError if a log's division or benchmark is no plain word. The official checker builds from it the
    path of a rule file, which it would open and execute."""
    for _, name in names_in(log, ruleset):
        if not _PLAIN_WORD.match(str(name)):
            raise NotAskedError("the division or benchmark that a log names is no plain word")


def ask_compliance(job: Job, heard: Listener) -> Said:
    from mlperf_logging.compliance_checker import mlp_compliance

    refuse_invented_names(job["path"], job["ruleset"])
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", job["ruleset"], False, False)
    valid = mlp_compliance.main(job["path"], f"training_{job['ruleset']}/common.yaml", checker)[0]
    said = [*checker.not_overwritable, *checker.overwritable.values(), *checker.warnings.values()]
    return ("valid" if valid else "invalid"), [str(message) for message in said], None


def list_closed_logs(job: Job) -> list[str]:
    """Return the logs of a set in the Closed division. Raises NotAskedError for Open, where the package checker does
    not ask about seeds and convergence."""
    logs = sorted(map(str, Path(job["path"]).glob("result_*.txt")))
    if any((DIVISION, "open") in names_in(log, job["ruleset"]) for log in logs):
        raise NotAskedError("it is not asked about the Open division")
    return logs


def ask_seed(job: Job, heard: Listener) -> Said:
    from mlperf_logging.package_checker.seed_checker import SeedChecker

    logs = list_closed_logs(job)
    valid = SeedChecker(job["ruleset"]).check_seeds(logs)
    lines = [line for text in heard.messages(logging.ERROR) for line in text.splitlines()]
    return ("valid" if valid else "invalid"), lines, None


def ask_rcp(job: Job, heard: Listener) -> Said:
    """Ask the official checker of reference convergence points (RCPs) about a result set.

    The checker is called with its argument set_scaling, which makes it write scaling.json into the copy of the set.
    Without this argument the checker would look for a scaling.json in the root folder and delete it.
    """
    from mlperf_logging.rcp_checker import rcp_checker

    logs = list_closed_logs(job)
    is_added = any((BENCHMARK, name) in names_in(log, job["ruleset"]) for log in logs for name in _added)
    passed, said, factor = rcp_checker.check_directory(
        job["path"], "training", job["ruleset"], False, False, rcp_pass="pruned_rcps", set_scaling=True
    )
    Path(job["path"], "scaling.json").unlink(missing_ok=True)
    if not math.isfinite(factor):
        return "crashed", [f"its factor is {factor}, not a number", str(said)], None
    if is_added:
        said = f"{_ADDED}: {said}"
    return ("valid" if passed else "invalid"), [str(said), *heard.messages(logging.WARNING)], float(factor)


def ask_system(job: Job, heard: Listener) -> Said:
    from mlperf_logging.system_desc_checker import system_desc_checker

    valid = system_desc_checker.check_system_desc(job["path"], "training", job["ruleset"])[0]
    return ("valid" if valid else "invalid"), heard.messages(logging.ERROR), None


def ask_package(job: Job, heard: Listener) -> Said:
    """Ask the official package checker about a submission: it returns nothing and always exits with 0, so its last
    message is taken as its verdict."""
    from mlperf_logging.package_checker import package_checker

    for log in sorted(Path(job["path"]).glob("results/*/*/result_*.txt")):
        refuse_invented_names(str(log), job["ruleset"])
    package_checker.check_training_package(
        job["path"], "training", job["ruleset"], False, False, False, False, False, os.devnull
    )
    if not heard.said("PACKAGE CHECKER FOUND"):
        return "crashed", ["it ended without a verdict"], None
    valid = heard.said("PACKAGE CHECKER FOUND NO ERRORS")
    return ("valid" if valid else "invalid"), heard.messages(logging.ERROR, logging.WARNING), None


def ask_repo(job: Job, heard: Listener) -> Said:
    """Ask the official repository checker about a submission: it returns False whatever it finds, so its last message
    is taken as its verdict."""
    from mlperf_logging.repo_checker import repo_checker

    repo_checker.run_checks(job["path"])
    return ("valid" if heard.said("ALL CHECKS PASSED") else "invalid"), heard.messages(logging.ERROR), None


CHECKERS: dict[str, Callable[[Job, Listener], Said]] = {
    "compliance": ask_compliance,
    "seed": ask_seed,
    "rcp": ask_rcp,
    "system": ask_system,
    "package": ask_package,
    "repo": ask_repo,
}


def parse_once(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of `parse` that keeps its results, within a limit of memory. `parse` is the official checkers'
    function of a file name and a ruleset. The checkers parse each log up to six times, which takes most of their
    time. Every call returns a separate copy of the result, so callers may change it."""
    kept: dict[tuple[str, str], bytes] = {}

    def parse_or_copy(filename: str, ruleset: str = "0.6.0") -> Any:
        key = (filename, ruleset)
        if key in kept:
            return pickle.loads(kept[key])
        parsed = parse(filename, ruleset=ruleset)
        if Path(filename).stat().st_size <= KEPT_BYTES:
            with contextlib.suppress(RecursionError):  # values nested too deep to pickle are parsed again
                kept[key] = pickle.dumps(parsed)
            while sum(map(len, kept.values())) > KEPT_BYTES:
                del kept[next(iter(kept))]
        return parsed

    return parse_or_copy


def read_once(yaml: Any) -> Callable[..., Any]:
    """Return a version of yaml.load that reads each rule file once, since the official checkers read their rule files
    again for every log. libyaml gives the same result as their BaseLoader, only faster."""
    read, base = yaml.load, getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    @lru_cache(maxsize=256)
    def read_text(text: str, loader: Any) -> bytes:
        return pickle.dumps(read(text, Loader=base if loader is yaml.BaseLoader else loader))

    def read_or_copy(stream: Any, Loader: Any) -> Any:  # noqa: N803  (their name)
        return pickle.loads(read_text(stream if isinstance(stream, str) else stream.read(), Loader))

    return read_or_copy


def load(names: set[str]) -> None:
    """Import the modules that the official checkers in `names` need, before the process is confined and may no longer
    read them."""
    from mlperf_logging.compliance_checker import mlp_compliance, mlp_parser

    mlp_parser.parse_file = parse_once(mlp_parser.parse_file)
    mlp_compliance.yaml.load = read_once(mlp_compliance.yaml)
    if names & {"seed", "rcp", "package"}:
        from mlperf_logging.package_checker import package_checker  # noqa: F401  (brings seed and rcp with it)
        from mlperf_logging.rcp_checker import rcp_checker

        if "dlrm" not in (runs := rcp_checker.submission_runs["training"]):  # crashes in rounds 1.0 to 2.1
            runs["dlrm"] = _DLRM_RUNS
            _added.append("dlrm")
    if "system" in names:
        from mlperf_logging.system_desc_checker import system_desc_checker  # noqa: F401
    if "repo" in names:
        from mlperf_logging.repo_checker import repo_checker  # noqa: F401


def answer(job: Job) -> dict[str, Any]:
    """Return the official checker's verdict on what one question names (a log, a set or a submission), or a
    description of its crash."""
    heard = Listener()
    root = logging.getLogger()
    root.addHandler(heard)
    try:
        outcome, messages, factor = CHECKERS[job["checker"]](job, heard)
    except NotAskedError as error:
        outcome, messages, factor = "not asked", [str(error)], None
    except Exception as error:
        outcome, messages, factor = "crashed", [f"{type(error).__name__}: {error}".rstrip(": ")], None
    finally:
        root.removeHandler(heard)
    kept = [message[:MESSAGE_CHARS] for message in dict.fromkeys(messages)][:MAX_MESSAGES]
    return {"outcome": outcome, "messages": kept, "factor": factor}


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # output of the checkers is no answer
    end_with_parent(request["parent"])
    limit(request["memory_bytes"], request["cpu_s"], request["file_bytes"])
    logging.getLogger().setLevel(logging.INFO)
    warnings.simplefilter("ignore")
    load({job["checker"] for job in request["jobs"]})
    confine(str(Path.cwd()))
    for job in request["jobs"]:
        print(json.dumps({"started": job["id"]}), file=answers, flush=True)
        print(json.dumps({"ended": job["id"], **answer(job)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
