"""Finds the settings in which two configurations differ: configuration values, software, system, values in logs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.comparison.records import DifferenceDocument, Setting, SettingRow, SettingSection, UnknownSection
from reports.comparison.sources import only
from reports.results.measured import read_measured
from reports.results.records import SURROUNDINGS, config_texts, environment_texts, read_set_records
from reports.results.result import Result
from reports.tables.documents import is_document, read_document
from reports.text.formatting import names, printable
from rules.checks.verdict import Verdict
from rules.errors import InputError
from rules.judge.sets import judge_set
from rules.logs import keys
from rules.logs.log import RunLog, read_log
from rules.records.run_set import RunSetRecord
from rules.tree.inventory import find_in_processes, take_inventory

SECTIONS: tuple[SettingSection, ...] = ("configuration", "software", "system", "logged")
_RULES: SettingSection = "rules"
"""Name of the section that lists, among the differing settings of two configurations, the verdicts of a ruleset. It
is present only if the user names a ruleset."""
MAX_VALUES = 4
# Fields of the MLPerf system description that name software.
_SOFTWARE_FIELDS = frozenset({"framework", "other_software_stack", "operating_system", "sw_notes"})
# Log keys on the course of a run, which are no settings.
_COURSE = frozenset(
    {
        keys.CACHE_CLEAR, keys.EVAL_ACCURACY, keys.TRACKED_STATS, keys.SEED, keys.WEIGHTS_INITIALIZATION,
        keys.INIT_START, keys.INIT_STOP, keys.RUN_START, keys.RUN_STOP, keys.EPOCH_START, keys.EPOCH_STOP,
        keys.BLOCK_START, keys.BLOCK_STOP, keys.EVAL_START, keys.EVAL_STOP,
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedConfiguration:
    """One configuration of a comparison of settings: its settings by section and name; `missing` lists sections
    without settings."""

    label: str
    settings: Mapping[str, Mapping[str, Setting]]

    @property
    def missing(self) -> tuple[SettingSection, ...]:
        return tuple(section for section in SECTIONS if not self.settings.get(section))


def find_difference(a: DescribedConfiguration, b: DescribedConfiguration) -> DifferenceDocument:
    """Compare the settings of two configurations by section; a section that one of the two lacks is left out."""
    missing = (
        *(UnknownSection(side="a", section=section) for section in a.missing),
        *(UnknownSection(side="b", section=section) for section in b.missing),
    )
    rows = []
    for section in (*SECTIONS, _RULES):
        of_a, of_b = a.settings.get(section), b.settings.get(section)
        if not of_a or not of_b:
            continue
        rows += [
            SettingRow(section=section, name=name, a=of_a.get(name), b=of_b.get(name))
            for name in dict.fromkeys((*of_a, *of_b))
        ]
    return DifferenceDocument(
        a=a.label,
        b=b.label,
        differing=tuple(row for row in rows if not row.is_identical),
        identical=tuple(row for row in rows if row.is_identical),
        missing=missing,
    )


def describe(path: Path, ruleset: str | None = None) -> DescribedConfiguration:
    """Read the settings of the only configuration at `path`: a run set, a result directory, a log, a measurement or
    an exported file."""
    if is_document(path):
        return _of_document(path)
    inventory = take_inventory(path)
    measured = find_in_processes(inventory)
    if measured and not inventory.result_sets:
        return _of_measurement(read_measured(*only(path, measured, lambda found: found[0].name)))
    result_set = only(path, inventory.require_result_sets(), lambda found: str(found.folder))
    records = read_set_records(result_set)
    settings = _of_records(
        records.run_set, records.system, str(result_set.system_json.name) if result_set.system_json else ""
    )
    settings["logged"] = _logged([read_log(log) for log in result_set.logs])
    if ruleset is not None:
        settings[_RULES] = _judged(judge_set(result_set, ruleset=ruleset).verdict)
    if not any(settings.values()):
        raise InputError(f"{printable(path)}: found no setting in MLLOG records. Give a log of a run, or a set.")
    return DescribedConfiguration(label=printable(path, 120), settings=settings)


def _of_records(
    record: RunSetRecord | None, system: Iterable[tuple[str, str]], system_file: str
) -> dict[str, dict[str, Setting]]:
    """Return a configuration's settings by section, from its run set's record (if there is one) and the system
    description."""
    settings: dict[str, dict[str, Setting]] = {section: {} for section in SECTIONS}
    provenance = record.system.provenance if record is not None else {}
    for name, value in system:
        source = provenance.get(name) or f"systems/{printable(system_file, 80)}"
        section = "software" if name.partition(".")[0] in _SOFTWARE_FIELDS else "system"
        settings[section][name] = Setting(value=value, source=source)
    if record is None:
        return settings
    for name, (value, source) in config_texts(record).items():
        settings["configuration"][name] = Setting(value=value, source=source or "unknown")
    asked = {"kind": record.kind, **{name: str(number) for name, number in record.options.items()}}
    hooks = {f"--{name}": command for name, command in record.hooks.items()}
    for name, text in (asked | hooks).items():  # what is measured, and commands around it
        settings["configuration"][printable(name, 80)] = Setting(value=printable(text, 200), source="asked")
    for name, value in environment_texts(record).items():
        section = "system" if name in SURROUNDINGS else "software"
        settings[section][name] = Setting(value=value, source="detected")
    settings["software"]["dlrmbench"] = Setting(value=record.harness_version, source="detected")
    if record.code_sha256 is not None:
        settings["software"]["code"] = Setting(value=record.code_sha256, source="detected")
    # The location of the data changes no result; its content does.
    digest = Setting(value=record.dataset.dataset_sha256 or "", source="dataset's manifest")
    settings["configuration"]["dataset.dataset_sha256"] = digest
    return settings


def _logged(logs: Sequence[RunLog]) -> dict[str, Setting]:
    """Return the settings in the logs of a result set: one value per key, or all values where the runs disagree."""
    found: dict[str, dict[str, str]] = {}
    for log in logs:
        for key, lines in log.by_key.items():
            if key in _COURSE or lines[0].event_type not in ("", "POINT_IN_TIME"):
                continue
            place = f"{printable(Path(log.path).name, 60)}:{lines[0].line_num}"
            found.setdefault(printable(key, 80), {}).setdefault(_shown(lines[0].value), place)
    return {key: _joined(values, len(logs)) for key, values in found.items()}


def _judged(verdict: Verdict) -> dict[str, Setting]:
    """Return a ruleset's verdict on a result set, with the numbers of errors and warnings, as entries to list beside
    settings."""
    errors = sorted({finding.code for finding in verdict.findings if finding.severity == "error"})
    said = {
        "verdict": verdict.outcome.upper(),
        "errors": f"{verdict.count('error')}{f' ({names(errors)})' if errors else ''}",
        "warnings": str(verdict.count("warning")),
    }
    return {name: Setting(value=value, source=verdict.ruleset) for name, value in said.items()}


def _joined(values: Mapping[str, str], num_logs: int) -> Setting:
    if len(values) == 1:
        ((value, place),) = values.items()
        return Setting(value=value, source=f"{place} and {num_logs - 1} more" if num_logs > 1 else place)
    places = list(values.values())[:MAX_VALUES]
    return Setting(value=f"varies: {names(list(values), MAX_VALUES)}", source=", ".join(places))


def _of_measurement(measured: Result) -> DescribedConfiguration:
    """Return the settings of a measurement: those in its record, and the hyperparameters that its first process
    reported."""
    run_set = measured.asked
    settings = _of_records(run_set, run_set.system.fields.items() if run_set else (), "")
    named = {name: getattr(measured.measured, name, None) for name in ("data_kind", "warm_up_steps", "eval_samples")}
    settings["logged"] = {
        name: Setting(value=_shown(value), source=f"extra/{measured.kind}.json, process 1")
        for name, value in (*getattr(measured.repetitions[0].record, "hyperparameters", {}).items(), *named.items())
        if value is not None
    }
    return DescribedConfiguration(label=printable(measured.place, 120), settings=settings)


# An export holds the results and few of the settings.
_EXPORTED = (
    "benchmark", "benchmark_version", "division", "quality_target", "global_batch_size", "learning_rate",
    "definition_sha256", "dataset_sha256", "organization", "system", "round",
)  # fmt: skip


def _of_document(path: Path) -> DescribedConfiguration:
    rows = read_document(path).configurations
    if not rows:
        raise InputError(f"{printable(path)}: holds no configuration.")
    row = only(path, rows, lambda found: found.configuration)
    logged = {
        name: Setting(value=_shown(value), source=printable(path.name, 60))
        for name in _EXPORTED
        if (value := getattr(row, name)) is not None
    }
    return DescribedConfiguration(label=printable(path, 120), settings={"logged": logged})


def _shown(value: object) -> str:
    """Format a setting's value; a float without fraction becomes the whole number that other programs log."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return printable(value if value is not None else "null", 200)
