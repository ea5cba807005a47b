"""Do one job of any kind of measurement in a child process, from the job's file to its record, and report every
error.

Started as `python -m harness.measure.job SPEC.json`. Progress goes to stdout as JSON lines; standard input is a
pipe whose end means that the parent process has ended.
"""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import msgspec

from harness.foundation.errors import (
    ExitCode,
    HarnessError,
    compose_message,
    end_process,
    exit_code_of,
    is_out_of_memory,
)
from harness.foundation.files import read_json, write_json, write_record
from harness.measure.kinds import EVENT_MARK, Job, Kind, OnEvent, find_job_kind
from harness.system.code import describe_code
from harness.system.power_command import end_power_commands
from reference_models.process.errors import OWN_FRAME, describe_own_frames, own_code_of
from reference_models.process.world import SingleProcess, World
from rules.records.codec import Document
from rules.records.measure import Measurement

SPEC_FILE = "spec.json"
JOB_VERSION = 1
"""Version of the format of the job's file, which a parent process writes for its child. In a comparison of two
installations, the two processes may run different versions of dlrmbench."""


def write_job(kind: Kind, job: Job) -> Path:
    """Write the job of a child process to a JSON file in the job's folder; return the file's path."""
    path = Path(job.folder) / SPEC_FILE
    # Members at their empty default are left out, so that an older installation without such a member can do the job.
    optional = {member.name for member in fields(job) if member.default is None or member.default is False}
    content = {key: value for key, value in asdict(job).items() if key != "folder" and (value or key not in optional)}
    write_json(path, {"job_version": JOB_VERSION, "kind": kind.name, **content})
    return path


def read_job(path: Path) -> tuple[Kind, Any]:
    """Return the kind of measurement and the job from a file that `write_job` made. Raises HarnessError for another
    job_version."""
    content = read_json(path)
    version = content.pop("job_version", None)
    if version != JOB_VERSION:
        raise HarnessError(
            f"{path}: job_version is {version!r}, this version of dlrmbench does jobs of version {JOB_VERSION}.",
            ExitCode.INPUT,
        )
    kind = find_job_kind(content.pop("kind"))
    return kind, kind.job(**content, folder=str(path.parent))


def measure(kind: Kind, job: Job, world: World, on_event: OnEvent) -> Document | None:
    """Do a job together with the other ranks of `world`; return the record of its result on rank 0, None on other
    ranks.

    Rank 0 also writes the record into the job's folder. The record of a measurement also describes dlrmbench's code;
    the record of a study (findings and tables) does not.
    """
    code = describe_code()
    try:
        record = kind.run(job, world, on_event)
    finally:
        end_power_commands()
    if record is not None:
        if isinstance(record, Measurement):
            record = msgspec.structs.replace(record, code=code)
        write_record(Path(job.folder) / kind.file, record)
    return record


def send_to_parent(event: Mapping[str, Any]) -> None:
    """Send a progress event to the parent process, as a line of JSON on standard output. A mark precedes it, since
    the user's code may have printed on the same line."""
    sys.stdout.write(f"{EVENT_MARK}{json.dumps(event)}\n")
    sys.stdout.flush()


def watch_parent() -> None:
    """End this process when its standard input closes: the parent process has then ended, even if it was killed by
    SIGKILL."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(ExitCode.TERMINATED)

    threading.Thread(target=wait, name="parent-watchdog", daemon=True).start()


def explain_and_end(attempt: Callable[[], object]) -> int:
    """Call `attempt`, the work of a child process, and return its exit code; an error that users can act on goes to
    stderr in one line."""
    try:
        attempt()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BaseException as error:
        code = exit_code_of(error)
        if code is None:
            raise
        if own_code_of(error) is not None and not is_out_of_memory(error):
            traceback.print_exception(error)
            sys.stderr.writelines(f"{OWN_FRAME}{frame}\n" for frame in describe_own_frames(error))
        sys.stderr.write(f"{compose_message(error)}\n")
        return code
    return ExitCode.DONE


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main(spec_path: str) -> int:
    """Do the job of the file named on the command line; return the exit code for the parent, with the reason on
    stderr."""
    signal.signal(signal.SIGTERM, _interrupt)
    watch_parent()
    return explain_and_end(lambda: measure(*read_job(Path(spec_path)), SingleProcess(), send_to_parent))


if __name__ == "__main__":
    end_process(main(sys.argv[1]))
