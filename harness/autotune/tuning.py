"""Choose by timing, before the first run and outside all measured time, the threads and kernels that compute training
steps or answer queries.

Three things are chosen: the number of threads, if none is given; the time that OpenMP's threads spin at a barrier;
and the kernel of each matrix product, if the implementation can use several libraries. The choice holds for all runs
of the run set, and `run_set.json` records it. A file in `<dataset>/choices/` keeps the choice for other run sets with
the same shapes of model and data, batch sizes and precision, on the same system and torch. Remove the file to have
the choice made anew.

Each thread count near the best is timed with kernels chosen for it. Differences below 5 % count as ties. Among tied
candidates the one with the fewest threads is chosen, then the one with the shortest spinning.

A choice that was made while other processes were at work is timed again when the system is quiet. The choice is then
replaced only by a candidate that is 5 % faster. For another version of torch the choice is made anew; kernels chosen
earlier are then replaced only by clearly faster ones.

Sections of a definition may have alternatives of their own (`harness.autotune.choices.OwnWays`), which are timed and
kept in the same way.
"""

import os
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace as change

from harness.autotune.candidates import Candidate, time_ways
from harness.autotune.choices import Candidates, find_candidates
from harness.autotune.job import fewest_changes
from harness.config.matmul import GivenMatmul, as_choice
from harness.config.run_config import RunConfig
from harness.foundation.errors import HarnessError
from harness.foundation.files import write_record
from harness.foundation.status_line import StatusLine
from harness.run_sets.dataset import kept_lock
from harness.run_sets.installation import Installation
from harness.system.load import LoadWatch
from harness.system.software import SPIN
from reports.results.records import describe_times, describe_way
from reports.text.formatting import plural
from rules.records.codec import Damage, Document, decode
from rules.records.load import BUSY_SHARE
from rules.records.run_set import TIE, ChoiceRecord, MatmulRecord, PreflightCheck, StepTimeRecord

_LOOK_S = 0.5
"""Seconds for which the load of other processes is measured, before a choice that was made on a noisy machine is
timed again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparation:
    """Settings that are made before the first run and that all processes of one configuration share: the dataset, and
    what was chosen by timing, such as threads."""

    data_dir: Path
    num_threads: int
    size: tuple[int, int]
    """Global batch size and number of training samples."""
    choice: ChoiceRecord | None = None
    """Threads, kernels and the like that were chosen by timing; None where nothing was chosen."""
    precision: str | None = None
    """Sentence that names the precision chosen for runtime.precision=auto, with the reason; None where the precision
    was not `auto`."""
    id_map_sha256: str | None = None
    """SHA-256 of the map of ids to embedding rows in the dataset's folder; None where the definition has no
    [id_map]."""


class KeptChoice(Document, frozen=True, kw_only=True):
    """Content of a file in `<dataset>/choices/`: threads, kernels and the like chosen by timing (`choice`), and the
    settings that they were chosen for (`chosen_for`)."""

    chosen_for: dict[str, Any]
    choice: ChoiceRecord


Measure = Callable[[Candidates, MatmulRecord | None], ChoiceRecord | str]
"""Function that times candidates (threads, kernels or the like) and returns the chosen ones, or the reason why timing
failed. It begins with kernels for matrix products that were chosen earlier; None if there are none."""


def autotune(
    config: RunConfig,
    prepared: Preparation,
    *,
    known: MutableMapping[str, ChoiceRecord],
    given: GivenMatmul | None = None,
    installation: Installation | None = None,
    quiet: bool = False,
    measure: Measure | None = None,
    num_threads: int | None = None,
) -> Preparation:
    """Return `prepared` with the fastest threads and kernels (or what else a section lets autotuning choose). An
    earlier choice is used if `known` or else the dataset's folder has a valid one. Otherwise candidates are timed
    now.

    `known` maps keys of candidates to choices. Each choice that is read or made here is added to it, so that all
    configurations of one command share the choice. If timing fails, `prepared` is returned unchanged and a note is
    printed; nothing is raised, since the first run fails for the same reason and reports it. If `num_threads` is
    given and `known` has no choice, only candidates with that many threads are considered, if there are any.
    """
    candidates = find_candidates(config, prepared.data_dir, given, installation)
    if candidates is None:
        return prepared
    line, done = StatusLine(quiet=quiet), "computed" if candidates.own is None else candidates.own.done
    choice = known.get(candidates.key)
    if choice is not None and candidates.fits(choice):
        return _with(prepared, choice)
    candidates = candidates if num_threads is None else candidates.on_threads(num_threads)
    with _locked(candidates.path.parent) as why_not:
        kept = _read_kept(candidates, line)
        if kept is not None and (not kept.was_busy or is_system_busy()):
            line.finish(f"{done} with {describe_choice(kept)}, as timed on {kept.chosen_utc[:10]}: {candidates.path}")
            known[candidates.key] = kept
            return _with(prepared, kept)
        what = "threads and matrix products" if candidates.chooses_matmul else "threads"
        what += " in bf16 and fp32" if candidates.compares_fp32 else ""
        what = what if candidates.own is None else candidates.own.words
        line.show(f"timing {what}, once for this shape on this system: some seconds", now=True)
        earlier = _earlier(candidates) if kept is None else kept.matmul
        watch = LoadWatch()
        timed = (measure or _Timing(installation))(candidates, earlier)
        if isinstance(timed, str):
            line.finish(
                f"note: {what} were not chosen by timing ({timed}); {plural(prepared.num_threads, 'thread')}."
            )
            return prepared
        if candidates.compares_fp32 and timed.in_fp32 is None:
            line.finish("note: steps in fp32 could not be timed, so that nothing says whether bf16 is faster.")
        is_busy = is_system_busy(watch)
        timed = change(timed if kept is None else prefer(kept, timed), was_busy=is_busy)
        why_not = why_not or _keep(candidates, timed)
        where = f"not kept: {why_not}" if why_not else f"kept in {candidates.path}"
        where += ", and timed again when the machine is quiet" if is_busy and not why_not else ""
        line.finish(f"{done} with {describe_choice(timed)}, as timed now; {where}")
    known[candidates.key] = timed
    return _with(prepared, timed)


def _with(prepared: Preparation, choice: ChoiceRecord) -> Preparation:
    return replace(prepared, num_threads=choice.num_threads, choice=choice)


def find_choice(config: RunConfig, data_dir: Path) -> ChoiceRecord | None:
    """Return what autotuning chose earlier (threads, kernels or the like) if a run would use it. None if there is
    nothing to choose, or if a run would time candidates anew."""
    candidates = find_candidates(config, data_dir)
    return None if candidates is None else _read_kept(candidates, StatusLine(quiet=True))


def to_be_timed(config: RunConfig, data_dir: Path) -> Candidates | None:
    """Return the candidates (threads, kernels or the like) that a run would time before it begins; None where nothing
    is left to choose."""
    return None if find_choice(config, data_dir) is not None else find_candidates(config, data_dir)


def describe_choice(choice: ChoiceRecord) -> str:
    """Return in a few words what autotuning chose: threads, spin count of OpenMP, step times and kernels."""
    words = plural(choice.num_threads, "thread")
    if choice.service is not None:
        words = describe_way(choice.service.chosen)
    notes = [f"{SPIN}={choice.spin_count}"] if choice.num_threads > 1 and choice.spin_count is not None else []
    notes += [times] if (times := describe_times(choice)) else []
    words += f" ({'; '.join(notes)})" if notes else ""
    return words if choice.matmul is None else f"{words} and products {choice.matmul.label}"


@dataclass(frozen=True, slots=True)
class _Timing:
    """Function that times candidates (threads, kernels or the like) in fresh processes and returns the chosen one.
    The processes are of another `installation` of dlrmbench, or of the running one if `installation` is None."""

    installation: Installation | None

    def __call__(self, candidates: Candidates, earlier: MatmulRecord | None) -> ChoiceRecord | str:
        if candidates.own is not None:
            return candidates.own.time(
                candidates, None if self.installation is None else self.installation.interpreter
            )
        given = None if candidates.given is None else candidates.given.record
        is_one_way = len(candidates.thread_counts) == len(candidates.spin_counts) == 1
        if given is not None and is_one_way and not candidates.compares_fp32:
            return self._answer(candidates, candidates.thread_counts[0], candidates.spin_counts[0], (), given)
        trial = Candidate(
            tables=candidates.config.tables,
            definition_path=candidates.config.benchmark.path,
            data_dir=candidates.data_dir,
            given=given,
            previous=earlier,
            interpreter=None if self.installation is None else self.installation.interpreter,
        )
        found = time_ways(trial, candidates.thread_counts, candidates.spin_counts)
        if isinstance(found, str):
            return found
        best = fewest_changes(found.tried)
        matmul = given if given is not None else found.matmuls.get((best.num_threads, best.spin_count))
        answer = self._answer(candidates, best.num_threads, best.spin_count, found.tried, matmul)
        if not candidates.compares_fp32:
            return answer
        tables = {**trial.tables, "runtime": {**trial.tables.get("runtime", {}), "precision": "fp32"}}
        fp32 = replace(trial, tables=tables, given=None, previous=None)
        others = time_ways(fp32, candidates.thread_counts, candidates.spin_counts)
        return answer if isinstance(others, str) else change(answer, in_fp32=fewest_changes(others.tried))

    def _answer(
        self,
        candidates: Candidates,
        num_threads: int,
        spin_count: int | None,
        tried: tuple[StepTimeRecord, ...],
        matmul: MatmulRecord | None,
    ) -> ChoiceRecord:
        return ChoiceRecord(
            key=candidates.key,
            num_threads=num_threads,
            spin_count=spin_count,
            tried=tried,
            matmul=matmul,
            matmul_source=None
            if matmul is None
            else "measured"
            if candidates.given is None
            else candidates.given.source,
            chosen_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        )


@contextmanager
def _locked(folder: Path) -> Iterator[str | None]:
    """Lock the folder that keeps one dataset's choices of threads and kernels, while the caller's block makes such a
    choice. A second process waits for the lock, and then reads the choice of the first process.

    Yields None, or the reason why the folder cannot be locked; the choice is then not written there. The folder is
    not written if it is read-only or a link. A link is refused because a dataset may come from a stranger, whose link
    may lead to the user's own files.
    """
    with ExitStack() as held:
        why_not = None
        try:
            held.enter_context(kept_lock(folder, folder.parent))
        except (OSError, HarnessError) as error:
            why_not = _say_why(error)
        yield why_not


def _say_why(error: OSError | HarnessError) -> str:
    return "no writing there" if isinstance(error, OSError) else str(error).rstrip(".")


def check_choice(choice: ChoiceRecord | None) -> PreflightCheck | None:
    """Return a warning that threads and kernels were chosen by timing while other processes took processor time; None
    where they were not."""
    if choice is None or not choice.was_busy:
        return None
    return PreflightCheck(
        name="choice by timing",
        value=f"made on a noisy machine, {choice.chosen_utc[:10]}",
        status="warning",
        why="A way that other processes delayed seems slower than it is: sides of a comparison may differ by that.",
        remedy="Begin a new set on a quiet machine, which times them again.",
    )


def is_system_busy(watch: LoadWatch | None = None) -> bool:
    """Return whether other processes take processor time: on average since `watch` began or, without `watch`, during
    the next half second.

    This process and its children are not counted. Where the system does not tell their time from that of others, the
    system's load average decides.
    """
    if watch is None:
        watch = LoadWatch()
        time.sleep(_LOOK_S)
    load = watch.end()
    others = load.load_avg_before if load.other_cpus is None else load.other_cpus
    return others is not None and others > BUSY_SHARE * load.num_cpus


def prefer(kept: ChoiceRecord, timed: ChoiceRecord) -> ChoiceRecord:
    """Return the better of two timed choices of threads, spin count and kernels: the earlier one, `kept`, unless the
    new one, `timed`, is clearly (5 %) faster. If `kept` is better and both have equally many threads, its kernels for
    matrix products are replaced by those of `timed`."""
    if kept.service is not None and timed.service is not None:
        rates = {way.setup: way.queries_per_s for way in timed.service.tried}
        of_kept = rates.get(kept.service.chosen.setup)
        return timed if of_kept is None or of_kept * TIE < max(rates.values()) else kept
    step_s = {(way.num_threads, way.spin_count): way.step_s for way in timed.tried}
    of_kept = step_s.get((kept.num_threads, kept.spin_count))
    if of_kept is None or of_kept > TIE * min(step_s.values()):
        return timed
    return change(timed, spin_count=kept.spin_count) if kept.num_threads == timed.num_threads else kept


def _read_kept(candidates: Candidates, line: StatusLine) -> ChoiceRecord | None:
    """Return what autotuning chose earlier, read from its file. Print a note and return None if the file is
    damaged."""
    kept = decode(candidates.path, KeptChoice)
    if isinstance(kept, Damage):
        if os.path.lexists(candidates.path):
            line.finish(f"note: {kept}; not used, and made anew.")
        return None
    try:
        if kept.choice.matmul is not None:
            as_choice(kept.choice.matmul, str(candidates.path))
    except HarnessError as error:
        line.finish(f"note: {error} Not used, and made anew.")
        return None
    is_whole = kept.choice.in_fp32 is not None or not candidates.compares_fp32
    return kept.choice if candidates.fits(kept.choice) and is_whole else None


def _earlier(candidates: Candidates) -> MatmulRecord | None:
    """Return the kernels for matrix products in the newest choice that was made with another torch version; None
    where there is no such choice."""
    try:
        others = sorted(
            candidates.path.parent.glob(f"{candidates.path.name[:16]}-torch-*.json"),
            key=lambda path: path.stat().st_mtime,
        )
    except OSError:
        return None
    for path in reversed(others):
        kept = decode(path, KeptChoice)
        if path != candidates.path and not isinstance(kept, Damage) and kept.choice.matmul is not None:
            return kept.choice.matmul
    return None


def _keep(candidates: Candidates, choice: ChoiceRecord) -> str | None:
    """Write what autotuning chose into the dataset's folder, for other run sets. Return None, or the reason why it
    could not be written."""
    chosen_for = {**candidates.chosen_for, "torch": candidates.torch_version}
    try:
        write_record(candidates.path, KeptChoice(chosen_for=chosen_for, choice=choice))
    except (OSError, HarnessError) as error:
        return _say_why(error)
    return None
