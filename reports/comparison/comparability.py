"""Checks whether two results may be compared, and lists the settings, hardware and software in which they differ."""

import json
import shlex
from collections.abc import Sequence
from itertools import islice

from reports.comparison.pairing import Pairing
from reports.comparison.records import Change, Comparison
from reports.facts.energy import compare_energy
from reports.results.records import THREADS, THREADS_TIMED
from reports.results.reference_systems import system_of
from reports.results.result import Result
from reports.results.sequential_stopping import stopping_words
from reports.text.formatting import plural, printable
from rules.records.kinds import find_record_type
from rules.scoring.comparable import why_not_comparable

MAX_CHANGES = 60
_MODEL = "runtime.model"
"""Key of the configuration setting for a user's own model, which replaces dlrmbench's: the model's file with its
digest."""
SAME_SET = "BASE and NEW are the same set"
ONE_SYSTEM = "Each interval is of one system only, and says nothing about other systems of the same type."
SAME_CONFIGURATION = "same configuration"


def why_refused(base: Result, new: Result) -> str | None:
    """Return the reason why two results may not be compared; None where they may."""
    if base.quantities != new.quantities:
        runs, other = (base, new) if base.is_logged else (new, base)
        (what, *_), (its, *_) = base.quantities, new.quantities
        if not runs.is_logged:
            return f"{base.label} holds a measurement of {what}, {new.label} one of {its}"
        return (
            f"{runs.label} holds runs to the target, {other.label} a measurement of {other.quantities[0]} alone: "
            "they are measured differently"
        )
    if not base.is_logged:
        return _why_other_measurement(base, new)
    if not base.runs or not new.runs:
        return f"{(new if base.runs else base).label} holds no finished run"
    first = base.runs[0].log
    for run in (*base.runs, *new.runs):
        if why := why_not_comparable(first, run.log):
            return printable(why)
    if base.status != new.status:
        return f"different status: {base.status} and {new.status} benchmarks are never compared"
    of_base, of_new = ({run.log.log_sha256 for run in result.runs} for result in (base, new))
    twins = of_base & of_new - {""}
    if twins and of_base == of_new:
        return SAME_SET
    if twins:
        number = sum(run.log.log_sha256 in twins for run in new.runs)
        return f"{plural(number, 'run is', 'runs are')} on both sides (equal logs): the sets are not independent"
    return None


def refused_words(comparisons: Sequence[Comparison]) -> str | None:
    """Return the error message for comparisons that were refused: their number, the reason for the first one and the
    remedy; None where no comparison was refused."""
    refused = [comparison for comparison in comparisons if comparison.refusal is not None]
    if not refused:
        return None
    why = refused[0].refusal
    alike = "Compare results of one benchmark, target, dataset and division."
    remedy = "Give another set as NEW." if why == SAME_SET else alike
    return f"{len(refused)} of {len(comparisons)} not compared: {refused[0].new}: {why}. {remedy}"


def _why_other_measurement(base: Result, new: Result) -> str | None:
    """Return the reason why two measurements (not runs that train to a target quality) may not be compared; None
    where they may.

    Measurements may differ in the settings that are varied, but not in the quantity that is measured.
    """
    of_base, of_new = dict(base.settings), dict(new.settings)
    for name, words in find_record_type(base.kind).MUST_AGREE.items():
        if name in of_base and name in of_new and of_base[name] != of_new[name]:
            return words.format(of_base[name], of_new[name])
    digests = [side.asked.benchmark.definition_sha256 for side in (base, new) if side.asked]
    if system_of(base) != system_of(new) and len(set(digests)) > 1:
        return printable(f"different definition: {' and '.join(digests)}")
    # Two measurements may reach equal quality, so labels decide then; equal times mean one and the same measurement.
    is_same = base.samples == new.samples and (base.measure.scale == "ratio" or base.label == new.label)
    return SAME_SET if is_same else None


PROCESSOR = "processor"
"""Name of the entry for different processors in the list of what changed between two compared results."""


def systems_differ(base: Result, new: Result) -> bool:
    """Return whether two results were measured on different systems.

    They are on different systems if only one of them is of a reference system, or if they are of two reference
    systems. They are also on different systems if the family and model numbers of their processors differ; numbers
    are compared because a virtual machine may hide the processor's name. Otherwise the MLPerf system descriptions
    decide if both results have one, and the systems' names if not.
    """
    numbers = {str(side.asked.environment.get("processor")) for side in (base, new) if side.asked} - {"None"}
    if system_of(base) != system_of(new) or len(numbers) > 1:
        return True
    of_base, of_new = dict(base.hardware), dict(new.hardware)
    if of_base and of_new:
        return any(_said(of_base[key]) != _said(of_new[key]) for key in of_base.keys() & of_new.keys())
    # Without both names, or with equal ones, nothing shows that the systems differ.
    return base.system.name is not None and new.system.name is not None and base.system.name != new.system.name


def _said(text: str) -> str:
    """Return a field's value in an MLPerf system description; empty for 'N/A', which means that the field does not
    apply."""
    return "" if text.strip().upper() == "N/A" else text.strip()


def list_hardware_changes(base: Result, new: Result) -> tuple[Change, ...]:
    """Return the hardware fields, with both values, in which the MLPerf system descriptions of two results differ."""
    of_base, of_new = dict(base.hardware), dict(new.hardware)
    changes = (
        Change(name=name, base=of_base.get(name), new=of_new.get(name)) for name in dict.fromkeys((*of_base, *of_new))
    )
    return tuple(change for change in changes if _said(change.base or "") != _said(change.new or ""))


def list_processor_change(base: Result, new: Result) -> tuple[Change, ...]:
    """Return the processors of two results as a difference if their names, or their known family and model numbers,
    differ."""
    numbers = [side.asked.environment.get("processor") if side.asked else None for side in (base, new)]
    known = numbers if all(numbers) else [None, None]
    of_base, of_new = (_processor(side, number) for side, number in zip((base, new), known, strict=True))
    return () if of_base == of_new else (Change(name=PROCESSOR, base=of_base, new=of_new),)


def _processor(side: Result, number: object) -> str | None:
    """Return a result's processor as text, as far as it is known: '1 x AMD EPYC, 2 cores (AuthenticAMD family 25
    model 1)'; None if it is unknown."""
    hardware = dict(side.hardware)
    count, name = hardware.get("host_processors_per_node"), hardware.get("host_processor_model_name")
    cores = hardware.get("host_processor_core_count")
    words = " x ".join(filter(None, (count if name else None, name)))
    words += f", {cores} cores" if words and cores else ""
    return printable(f"{words} ({number})" if words and number else words or str(number or "")) or None


def list_changes(base: Result, new: Result) -> tuple[Change, ...]:
    """Return the settings that differ between two results, at most MAX_CHANGES; a value is None for a result that
    lacks the setting."""
    of_base, of_new = ({**dict(side.settings), **_asked_texts(side, base, new)} for side in (base, new))
    if of_base.get(THREADS) == of_new.get(THREADS):
        for settings in (of_base, of_new):
            settings.pop(THREADS_TIMED, None)
    changes = [
        Change(name=name, base=of_base.get(name), new=of_new.get(name))
        for name in dict.fromkeys((*of_base, *of_new))
        if of_base.get(name) != of_new.get(name)
    ]
    set_so = {(change.name.partition(".")[2], change.base, change.new) for change in changes if "." in change.name}
    logged_alone = (change for change in changes if (change.name, change.base, change.new) not in set_so)
    return tuple(islice(logged_alone, MAX_CHANGES))


def _asked_texts(side: Result, base: Result, new: Result) -> dict[str, str]:
    if side.asked is None or len({each.asked.kind for each in (base, new) if each.asked}) != 1:
        return {}
    asked = {name: str(number) for name, number in side.asked.options.items()}
    asked |= {f"--{name}": command for name, command in side.asked.hooks.items()}
    return {printable(name, 80): printable(text, 200) for name, text in asked.items()}


def beside_command(base: Result, new: Result) -> str | None:
    """Return the `dlrmbench` command that measures the configurations of two results alternately (A/B).

    None if there is no such command: this harness did not measure the baseline, one of the results ran code that is
    not dlrmbench's own, or the results differ in benchmark or system.
    """
    if base.place is None or base.status == "official" or systems_differ(base, new) or system_of(base):
        return None
    words = ["dlrmbench", "versus", str(base.place)]
    if base.asked is None or new.asked is None:
        return printable(shlex.join(words), 400)
    if base.asked.benchmark != new.asked.benchmark:
        return None
    of_base, of_new = ({key: given.value for key, given in asked.config.items()} for asked in (base.asked, new.asked))
    changed = {key: value for key, value in of_new.items() if of_base.get(key) != value}
    if of_base.keys() - of_new.keys() or any("@" in str(value) for value in changed.values()):
        return None
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in changed.items()}
    options = [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]
    return printable(shlex.join([*words, *options]), 400)


def notes_of(base: Result, new: Result, pairing: Pairing) -> tuple[str, ...]:
    """Return the remarks, one sentence each, that a reader of two results' comparison needs, such as that the systems
    differ."""
    notes = []
    if base.asked and new.asked and not list_changes(base, new) and not list_hardware_changes(base, new):
        notes.append(f"{SAME_CONFIGURATION}: no recorded setting, software or hardware differs")
    for name, side in (("base", base), ("new", new)):
        if (system := system_of(side)) and side.asked:
            text = f"{name}: this set is of reference system {system}, measured elsewhere on"
            notes.append(f"{text} {printable(side.asked.created_utc[:10])}")
        if side.outcome == "invalid":
            notes.append(f"{name}: INVALID by the rules; 'dlrmbench check' says why")
        if side.num_converged < side.num_runs:
            missing = side.num_runs - side.num_converged
            notes.append(
                f"{name}: {missing} of {plural(side.num_runs, 'run')} did not reach the target and have no time; "
                f"the comparison is of the {plural(side.num_converged, 'run')} that reached the target"
            )
        if side.growth is not None:
            notes.append(
                f"{name}: this set {stopping_words(side.growth)}; 95 % intervals, which take the number of runs as "
                "given, cover the mean in 92 to 95 % of sets like it"
            )
    models = [dict(side.settings).get(_MODEL, "") for side in (base, new)]
    if models[0] != models[1]:
        notes.append(
            f"{_MODEL} differs: the model's code is not part of the benchmark's definition, and a model that is "
            "easier to train takes less time"
        )
    own = [None if side.judged is None else side.judged.verdict.trained_by for side in (base, new)]
    if (own[0] is None) != (own[1] is None) and base.judged is not None and new.judged is not None:
        name, code = ("new", own[1]) if own[0] is None else ("base", own[0])
        notes.append(
            f"warning: own code trained {name} alone ({code}): that code writes the log and computes the quality, so "
            "the comparison is valid only if the code is correct"
        )
    if pairing.num_shared and not pairing.is_paired:
        shared = plural(pairing.num_shared, "seed is", "seeds are")
        notes.append(f"{shared} shared by the two sets, too few to compare the runs in pairs")
    if words := compare_energy(base, new):
        notes.append(words)
    if base.score.round != new.score.round and base.score.round is not None and new.score.round is not None:
        notes.append(f"different rounds: {base.score.round} and {new.score.round}")
    return tuple(notes)
