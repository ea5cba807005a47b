"""Makes the head of a page, below the title, alike for all kinds of page: machine, date, command, code, differences,
noise."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.comparison.comparability import list_changes
from reports.comparison.records import Change
from reports.document.blocks import Fact
from reports.kinds.details import details_of
from reports.page.content import ReportContent
from reports.page.sections.differences import MOST_DIFFERING
from reports.page.sections.verdict import processor_words, system_words
from reports.parts.load import environment_words
from reports.results.provenance import order_in_pair, seeded_command, with_seed
from reports.results.records import THREADS_TIMED, brief_commit
from reports.results.result import Result
from reports.text.formatting import epoch_ms, names, plural, printable, utc
from rules.records.experiment import SIDES
from rules.records.load import LoadRecord
from rules.records.profile import ProfileRecord
from rules.records.run_set import PreflightCheck, RunSetRecord
from rules.records.study import StudyRecord

NOT_RECORDED = "Not on record"
_NAMES = {"Code": "versions of the code", "Noise": "noise of the machine"}
"""Dict from the name of a row of the page's head to the words for it in the sentence that lists what was not
recorded."""
_FIRST_MS = 1_514_764_800_000
"""Start of 2018 in ms since 1970, before MLPerf's first round. A log's time stamps before it are not of a clock set
to the date, so no date is taken from them."""
_MAX_COMMAND, _MAX_VALUE, _MOST = 400, 60, MOST_DIFFERING
_MOST_VALUES = 4
"""Maximum number of values of a swept setting that the page's head lists. Of a setting with more values, the head
gives only their number."""
_VERSIONS = {"python": "Python", "packages.torch": "torch", "packages.torchrec": "torchrec"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Provenance of one result, sweep or study: machine, command, code, date. A member is empty if no record has it.

    `moments_ms` are the start times of the result's runs or of the study, in ms since 1970, UTC. `origins` are for
    studies only: they state the origins of those numbers in the study's tables that were not measured, such as
    'modelled'.
    """

    machine: str = ""
    moments_ms: Sequence[float] = ()
    command: str = ""
    code: str = ""
    preflight: Sequence[PreflightCheck] = ()
    loads: Sequence[LoadRecord | None] = ()
    origins: Sequence[str] = ()


def provenance_of_result(result: Result) -> Provenance:
    """Return the provenance of a result (machine, command, code, date), from its run set's record and its runs; for
    bare logs, from the logs."""
    record = result.asked
    moments = tuple(each.started_ms for each in result.repetitions if each.started_ms is not None)
    return Provenance(
        machine=_with_numbers(system_words(result), record),
        moments_ms=moments,
        command="" if record is None else seeded_command(record, result.place),
        code=""
        if record is None
        else _code_words(record.harness_version, record.environment, result.several_commits),
        preflight=() if record is None else record.preflight,
        loads=result.loads,
    )


def provenance_of_profile(record: RunSetRecord, profiles: Sequence[ProfileRecord]) -> Provenance:
    """Return the provenance of a profile (machine, command, code, date) from its run set's record. The load of the
    system is taken over all `profiles` on the page."""
    moment = epoch_ms(record.created_utc)
    return Provenance(
        machine=_with_numbers(processor_words(record.system.fields) or printable(record.system.name, 60), record),
        moments_ms=() if moment is None else (moment,),
        command=record.command,
        code=_code_words(record.harness_version, record.environment),
        preflight=record.preflight,
        loads=[load for profile in profiles for load in profile.loads],
    )


def provenance_of_study(study: StudyRecord) -> Provenance:
    """Return the provenance of a study (machine, command, code and date of a computed or measured analysis) from the
    study's own record."""
    made = study.made
    origins = dict.fromkeys(column.origin for table in study.tables for column in table.columns)
    shown = [origin for origin in origins if origin not in ("given", "published", "measured")]
    if made is None:
        return Provenance(
            machine=_machine_words(study, ""), preflight=study.preflight, loads=study.loads, origins=shown
        )
    number = "" if made.num_processors in (None, "", "0") else f"{printable(made.num_processors, 10)} × "
    moment = epoch_ms(made.created_utc)
    host = f"{number}{printable(made.processor, 60)}{_numbers(made.environment)}" if made.processor else ""
    return Provenance(
        machine=_machine_words(study, host),
        moments_ms=() if moment is None else (moment,),
        command=command_of_study(study),
        code=_code_words(made.harness_version, made.environment),
        preflight=study.preflight,
        loads=study.loads,
        origins=shown,
    )


def _with_numbers(machine: str, record: RunSetRecord | None) -> str:
    """Return a machine's name. If the name contains the processor's name, the processor's family, model and number of
    cores follow, as far as they are recorded."""
    host = "" if record is None else record.system.fields.get("host_processor_model_name", "")
    return f"{machine}{_numbers(record.environment)}" if record is not None and host and host in machine else machine


def _numbers(environment: Mapping[str, Any]) -> str:
    """Return words that distinguish processors with the same name, ' (family 25 model 17, 2 cores)'; '' where nothing
    is known."""
    _, _, numbers = str(environment.get("processor") or "").partition(" ")
    cores = environment.get("num_cores")
    told = [printable(numbers, 40), plural(cores, "core") if type(cores) is int and cores > 0 else ""]
    words = ", ".join(filter(None, told))
    return f" ({words})" if words else ""


def _machine_words(study: StudyRecord, host: str) -> str:
    """Return the machine that a study (analysis) models, followed by the host that computed it; only the host, where
    none is modelled."""
    find_modelled = details_of(study.kind).modelled
    if find_modelled is None or not (modelled := find_modelled(study)):
        return host
    done = "ran and took its timings" if study.preflight else "ran"
    return f"{modelled}, modelled" + (f"; this study {done} on {host}" if host else "")


def command_of_study(study: StudyRecord) -> str:
    """Return the command that reproduces a study (a computed or measured analysis): as typed, with the seed added
    where the command names none."""
    if study.made is None:
        return ""
    return study.made.command if study.seed is None else with_seed(study.made.command, study.seed)


def page_head(content: ReportContent) -> tuple[Fact, ...]:
    """Return the rows of a page's head (machine, date, command, code, noise): the same rows, in one order, on every
    page."""
    results = [*content.sets, *content.all_measured]
    # The study of a suite or search has the same provenance as its results, so it adds nothing.
    studies = [] if results else [provenance_of_study(study) for study in content.studies]
    profiles = [provenance_of_profile(record, content.profiles) for record in content.profile_sets]
    return head_facts([*map(provenance_of_result, results), *profiles, *studies], differing_words(content))


def head_facts(provenances: Iterable[Provenance], differing: str = "") -> tuple[Fact, ...]:
    """Return the rows of a page's head: machine, date, command, code, differences and noise. They are made from the
    provenance of each result, profile and study; a value that several of them share is listed once. `differing` says
    in words how the configurations differ. A last row names the rows whose values were not recorded."""
    made = list(provenances)
    moments = [moment for each in made for moment in each.moments_ms if moment >= _FIRST_MS]
    days = dict.fromkeys(utc(moment)[:10] for moment in (min(moments), max(moments))) if moments else ()
    commands = [printable(command, _MAX_COMMAND) for command in _distinct(each.command for each in made)]
    more = f" and {plural(len(commands) - 1, 'more command')}, in section Reproduce" if len(commands) > 1 else ""
    codes = _distinct(each.code for each in made)
    code = "; ".join(codes[:_MOST]) + (f" and {len(codes) - _MOST} more" if len(codes) > _MOST else "")
    rows = (
        Fact(name="Machine", value=names(_distinct(each.machine for each in made), most=4)),
        Fact(name="Date", value=" to ".join(days)),
        Fact(name="Command", value=commands[0] if commands else "", is_code=True, note=more),
        Fact(name="Code", value=code),
        Fact(name="Differs", value=differing),
        Fact(name="Noise", value=_noise_words(made), brief=_warning_words(made)),
    )
    missing = ", ".join(
        _NAMES.get(row.name, row.name.lower()) for row in rows if not row.value and row.name != "Differs"
    )
    known = (row for row in rows if row.value)
    return (*known, Fact(name=NOT_RECORDED, value=missing, brief=missing)) if missing else tuple(known)


def differing_words(content: ReportContent) -> str:
    """Return in words how a page's configurations differ. For sweeps, these are the varied settings with their
    values; for two configurations, the changed settings; for more, the names of the settings with several values. For
    a single configuration they are 'nothing: one configuration'. If every benchmark has two configurations, the
    changed settings are given for each benchmark."""
    if content.sweeps:
        return "; ".join(
            " × ".join(f"{printable(key, _MAX_VALUE)} ({_values_words(values)})" for key, values in sweep.axes)
            for sweep in content.sweeps[:_MOST]
        )
    sides = {each.name: each.value for study in content.studies for each in study.parameters if each.name in SIDES}
    if len(sides) == len(SIDES):
        return "; ".join(f"{side}: {printable(sides[side], 2 * _MAX_VALUE)}" for side in SIDES)
    results = [*content.sets, *content.measured]
    if len(results) == 1:
        return "nothing: one configuration"
    if len(results) == 2:
        base, new = sorted(results, key=lambda result: order_in_pair(result.place))
        return _changes_words(list_changes(base, new), _MOST)
    by_benchmark: dict[str, list[Result]] = {}
    for result in results:
        by_benchmark.setdefault(result.benchmark_name, []).append(result)
    if len(by_benchmark) > 1 and all(len(sides) == 2 for sides in by_benchmark.values()):
        told_of = ((name, list_changes(*sides)) for name, sides in list(by_benchmark.items())[:_MOST])
        more = f"; and {plural(len(by_benchmark) - _MOST, 'more benchmark')}" if len(by_benchmark) > _MOST else ""
        return "; ".join(f"{name}: {_changes_words(changes, 2)}" for name, changes in told_of) + more
    values: dict[str, set[str]] = {}
    for result in results:
        told = {} if result.asked is None else {key: repr(entry.value) for key, entry in result.asked.config.items()}
        for key, value in ({"machine": system_words(result)} | told).items():
            values.setdefault(key, set()).add(value)
    return names([printable(key, _MAX_VALUE) for key, found in values.items() if len(found) > 1], 2 * _MOST)


def _values_words(values: Sequence[str]) -> str:
    """Return the values of a swept setting, '0.03, 0.06'; only the number of values if there are many."""
    return ", ".join(values) if len(values) <= _MOST_VALUES else str(len(values))


def _changes_words(changes: Sequence[Change], most: int) -> str:
    """Return at most `most` changed settings, 'runtime.threads: 1 → 2'; unfilled placeholders count as no value."""
    told = (
        f"{printable(change.name, _MAX_VALUE)}: {printable(change.base, _MAX_VALUE)} → "
        f"{printable(change.new, _MAX_VALUE)}"
        for change in changes
        if change.name != THREADS_TIMED and "PLACEHOLDER" not in f"{change.base} {change.new}".upper()
    )
    return names([*told], most) or "nothing that is on record"


def _code_words(version: str, environment: Mapping[str, Any], several: str = "") -> str:
    """Return the versions of the code that ran, 'dlrmbench 1.0.0, commit b147b09e1234+, Python 3.13.5, torch 2.13.0';
    a + is added where files differed from the commit.

    `several` names the commits of a set whose runs were made by more than one commit, with the number of runs of
    each.
    """
    brief = brief_commit(environment.get("commit"), environment.get("commit_is_dirty"))
    packages = environment.get("packages")
    told = {"python": environment.get("python")}
    told |= {f"packages.{name}": found for name, found in packages.items()} if isinstance(packages, Mapping) else {}
    return ", ".join(
        (
            f"dlrmbench {printable(version, 20)}",
            f"commits {several}" if several else f"commit {brief}" if brief else "no commit on record",
            *(f"{name} {printable(told[key], 30)}" for key, name in _VERSIONS.items() if told.get(key)),
        )
    )


def _noise_words(made: Sequence[Provenance]) -> str:
    """Return in words what may have disturbed the page's measurements. If the page has only studies (computed or
    measured tables) that timed nothing, say instead that the command gives the same numbers again. '' if nothing is
    known."""
    checks = [check for each in made for check in each.preflight]
    loads = [load for each in made for load in each.loads]
    warned = list({check.name: check for check in checks if check.status == "warning"}.values())
    if words := environment_words(warned or checks, [load for load in loads if load is not None]):
        return words
    origins = _distinct(origin for each in made for origin in each.origins)
    if origins and any(each.command for each in made):
        return f"nothing is timed: numbers are {' and '.join(origins)}, and the command gives the same numbers again"
    return ""


def _warning_words(made: Sequence[Provenance]) -> str:
    """Return the warnings of the checks of the environment before measuring, '⚠ load, cpu governor'; '' without
    warnings."""
    warned = dict.fromkeys(check.name for each in made for check in each.preflight if check.status == "warning")
    return f"⚠ {names([printable(name, 40) for name in warned], most=4)}" if warned else ""


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
