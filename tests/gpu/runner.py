"""Runs steps, each in a process of its own within its limit, and keeps what they found in one JSON file.

The file is written anew, whole, after every step. What a step prints is a stranger's text. Standard library only, so
that it runs where packages are missing, and says which.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from claims import CLAIMS
from findings import printable, read_found

SCHEMA_VERSION = 1
KEPT_BYTES = 1 << 14
"""Of what a step prints: its end."""
_GRACE_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """One step as the JSON has it. `ended` is "done", "failed", "stopped at its limit", "not finished" where
    the time for all ended first, or "left out"."""

    step: str
    ended: str
    why: str
    exit_code: int | None
    duration_s: float
    started_utc: str
    system: Mapping[str, Any]
    judgements: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()
    last_words: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """End of a process: exit code (minus the signal), None where it was stopped; the end of its output."""

    exit_code: int | None
    output: bytes


def run_process(command: Sequence[str], *, environ: Mapping[str, str], cwd: Path, limit_s: float) -> End:
    """Run a command for at most `limit_s`; it, and whatever it started, is gone afterwards."""
    process = subprocess.Popen(
        command,
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    until_s, kept = time.monotonic() + limit_s, bytearray()
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while process.poll() is None and time.monotonic() < until_s:
                # A process may close its output and go on: then look at it now and then.
                if selector.get_map() and selector.select(min(0.2, max(0.0, until_s - time.monotonic()))):
                    if _read_into(kept, pipe):
                        selector.unregister(pipe)
                elif not selector.get_map():
                    time.sleep(0.05)
        exit_code = process.poll()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # A process inside a driver's call may outlive even that; the others need not wait for it.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    while not _read_into(kept, pipe) and time.monotonic() < until_s + _GRACE_S:
        pass
    process.stdout.close()
    return End(exit_code, bytes(kept))


def end_with_parent(poll_s: float = 0.5) -> None:
    """End this process and its group once its parent is gone: a step must not go on holding the GPU."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(poll_s)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _read_into(kept: bytearray, pipe: int) -> bool:
    """Append what the pipe has, and keep the end of all; returns whether nothing more comes now."""
    try:
        read = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return True
    kept += read
    del kept[:-KEPT_BYTES]
    return not read


def last_words(output: bytes, *, num_lines: int = 12) -> str:
    """The last lines of what a step printed, each made printable."""
    lines = [printable(line, 200) for line in output.decode("utf-8", "replace").splitlines()]
    return "\n".join([line for line in lines if line][-num_lines:])


def run_step(
    name: str,
    command: Sequence[str],
    *,
    limit_s: float,
    environ: Mapping[str, str],
    system: Mapping[str, Any],
    needs_s: float = 0.0,
) -> StepResult:
    """Run one step. `command` takes the file for its findings as its last argument.

    One that is stopped before it had `needs_s` has not failed: it is not finished.
    """
    started, started_s = datetime.now(UTC), time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"gpu-{name}-", ignore_cleanup_errors=True) as scratch:
        path = Path(scratch) / "findings.jsonl"
        end = run_process([*command, str(path)], environ=environ, cwd=Path(scratch), limit_s=limit_s)
        found = read_found(path, name)
    if end.exit_code is None and limit_s < needs_s:
        ended, why = "not finished", f"the time for all ended after {limit_s:.0f} s of it: run it alone"
    elif end.exit_code is None:
        ended, why = "stopped at its limit", f"it ran longer than {limit_s:.0f} s"
    elif end.exit_code != 0:
        ended, why = "failed", _why_failed(end.exit_code, end.output)
    else:
        ended, why = "done", ""
    return StepResult(
        step=name,
        ended=ended,
        why=why,
        exit_code=end.exit_code,
        duration_s=round(time.monotonic() - started_s, 1),
        started_utc=started.isoformat(timespec="seconds"),
        system=system,
        judgements={name: asdict(judgement) for name, judgement in found.judgements.items()},
        figures=found.figures,
        problems=tuple(found.problems),
        last_words=last_words(end.output),
    )


def _why_failed(exit_code: int, output: bytes) -> str:
    words = last_words(output, num_lines=1)
    if exit_code < 0:
        with suppress(ValueError):
            return f"ended by {signal.Signals(-exit_code).name}: {words}"
    return f"exit code {exit_code}: {words}"


def leave_out(name: str, why: str, system: Mapping[str, Any]) -> StepResult:
    """Describe a step that was not started."""
    return StepResult(
        step=name,
        ended="left out",
        why=why,
        exit_code=None,
        duration_s=0.0,
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        system=system,
    )


def write_results(path: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write claims with their verdicts, then what each step found."""
    write_json(path, {"schema_version": SCHEMA_VERSION, "claims": judge_claims(results), "steps": dict(results)})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Read the steps of a file that `write_results` wrote; ValueError for any other."""
    content = json.loads(path.read_text(encoding="utf-8"))
    steps = content.get("steps") if isinstance(content, dict) else None
    if not isinstance(steps, dict) or content.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"{path}: expected what 'python tests/gpu' writes (schema_version {SCHEMA_VERSION}).")
    for name, step in steps.items():
        if not isinstance(step, dict) or not {"ended", "judgements", "system", "figures"} <= step.keys():
            raise ValueError(f"{path}: step {printable(str(name), 40)} is damaged.")
    return steps


def judge_claims(results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the verdict on every claim; what its step did not judge is not run, and why is said."""
    verdicts = {}
    for claim in CLAIMS:
        step = results.get(claim.step)
        judged = step["judgements"].get(claim.name) if step is not None else None
        if judged is None:
            why = f"step {claim.step} was not run"
            if step is not None:
                why = f"step {claim.step} {step['ended']}" + (f": {step['why']}" if step.get("why") else "")
            judged = {"claim": claim.name, "verdict": "not run", "figure": "", "how": printable(why, 300)}
        verdicts[claim.name] = {**judged, "sentence": claim.sentence}
    return verdicts


def run_all(
    steps: Sequence[tuple[str, float]],
    command_of: Callable[[str], Sequence[str]],
    *,
    path: Path,
    environ: Mapping[str, str],
    system: Mapping[str, Any],
    within_s: float,
    before: Mapping[str, Mapping[str, Any]],
    why_left_out: Mapping[str, str],
    on_result: Callable[[StepResult], None],
) -> dict[str, Mapping[str, Any]]:
    """Run (name, limit in s) in order, within `within_s` in all, and write the file after each.

    A step has its limit, or what is left beyond the limits of those after it, where that is more.

    `before` is what an earlier call found; a step that is run again replaces what it had said.
    """
    results: dict[str, Mapping[str, Any]] = dict(before)
    until_s = time.monotonic() + within_s
    for number, (name, limit_s) in enumerate(steps):
        left_s = until_s - time.monotonic()
        others_s = sum(other_s for other, other_s in steps[number + 1 :] if other not in why_left_out)
        given_s = min(max(limit_s, left_s - others_s), left_s)
        why = why_left_out.get(name) or ("no time was left" if left_s < min(limit_s, 10.0) else "")
        if why:
            result = leave_out(name, why, system)
        else:
            result = run_step(
                name, command_of(name), limit_s=given_s, environ=environ, system=system, needs_s=limit_s
            )
        results[name] = asdict(result)
        write_results(path, results)
        on_result(result)
    return results


def count_failures(results: Mapping[str, Mapping[str, Any]], steps: Sequence[str]) -> int:
    """Count disproved claims, and steps of `steps` that failed or were stopped without disproving any."""
    disproved = [verdict for verdict in judge_claims(results).values() if verdict["verdict"] == "disproved"]
    guilty = {
        name
        for name, step in results.items()
        if any(judged["verdict"] == "disproved" for judged in step["judgements"].values())
    }
    broken = [
        name
        for name in steps
        if name in results and results[name]["ended"] in ("failed", "stopped at its limit") and name not in guilty
    ]
    return min(99, len(disproved) + len(broken))


def python_environment(root: Path, site: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` in which children import the checkout and what was unpacked for it, and nothing else new.

    Steps share the kernels that Triton compiles; `environ` may name another folder for them.
    """
    paths = [str(root), str(site), str(root / "tests" / "builders")]
    return {
        "TRITON_CACHE_DIR": str(site.parent / "kernels"),
        **environ,
        "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [environ.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",
    }


def python_command(root: Path, step: str, *arguments: str) -> list[str]:
    """The command that runs one step in this very process's Python; the findings' file comes last."""
    return [sys.executable, str(root / "tests" / "gpu"), "--step", step, *arguments, "--findings"]
