"""Makes the sections on systems, configurations and noise: differences between configurations first, equal values
folded."""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from reports.document.blocks import Block, Cell, Fold, Prose, Table, numeric, table_of, text_table
from reports.document.page import PageSection
from reports.facts.energy import explain_clocks
from reports.parts.cost import energy_records
from reports.parts.load import check_name, clock_range, load_range, load_words, others_range, temperature_range
from reports.results.records import config_texts, environment_texts
from reports.results.result import Result
from reports.text.formatting import MISSING, names, plural, printable
from rules.records.run_set import PreflightCheck

NOISE = "Noise and environment"
MAX_COLUMNS = 4
MAX_VALUES = 24
"""Maximum number of distinct values shown for a setting that differs between configurations, the most frequent first;
seeds, for example, all differ."""
_ORDER = ("warning", "unknown", "ok")

Entries = Mapping[str, tuple[str, str]]
"""Values of settings with their sources, by key; the source is empty where it was not recorded."""


def noise_section(group: Sequence[Result], id_: str) -> PageSection:
    """Return the section on the checks of the environment before measuring, for all configurations; equal results
    share a row."""
    rows: dict[PreflightCheck, list[str]] = {}
    for result in group:
        for check in result.asked.preflight if result.asked else ():
            rows.setdefault(check, []).append(result.label)
    blocks: list[Block] = []
    if not rows:
        blocks.append(Prose(text="No environment check came with these results.", kind="absent"))
    else:
        who = {check: _who(labels, group) for check, labels in rows.items()} if len(group) > 1 else None
        blocks += check_blocks([*rows], id_, who)
    without = [result.label for result in group if not (result.asked and result.asked.preflight)]
    if rows and without:
        blocks.append(Prose(text=f"No environment check came with {names(without)}.", kind="note"))
    blocks += _loads(group, f"{id_}-load-table")
    if moved := explain_clocks(energy for result in group for energy in energy_records(result)):
        blocks.append(Prose(text=moved, kind="note"))
    return PageSection(id=f"{id_}-noise", heading=NOISE, name="Noise", blocks=tuple(blocks))


def _loads(group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    """Return the system's load, CPU clock and temperature while the processes of a group measured: for one
    configuration a sentence, for several a table with a row each; empty where no load was recorded."""
    known = [result for result in group if any(result.loads)]
    if not known:
        return ()
    if len(group) == 1:
        words = load_words([load for load in known[0].loads if load])
        return () if words is None else (Prose(text=f"Measured {words}."),)
    table = table_of(
        known,
        (
            ("Configuration", "label"),
            (numeric("Load average", "when each process began"), "loads", load_range),
            (numeric("Other work", "CPUs kept busy"), "loads", others_range),
            (numeric("Clock", "of the CPUs"), "loads", clock_range),
            (numeric("Temperature", "of a CPU, at most"), "loads", temperature_range),
        ),
        id_=id_,
        caption="Load, clock and temperature of the system while each process measured: least and most",
    )
    return (table,)


def check_blocks(
    checks: Sequence[PreflightCheck],
    id_: str,
    who: Mapping[PreflightCheck, str] | None = None,
    before: str = "the first run",
) -> tuple[Block, ...]:
    """Return results of the checks of the environment, warnings open and all others folded; `who` names the
    configurations that each result applies to, and `before` names what came after the checks, such as 'the first
    run'."""
    disturbing = [check for check in checks if check.status == "warning"]
    quiet = [check for check in checks if check.status != "warning"]
    blocks: list[Block] = [Prose(text=_noise_lead(disturbing, checks, before))]
    if disturbing:
        blocks.append(_checks(disturbing, who, f"{id_}-noise-table"))
    if quiet:
        table = _checks(quiet, who, f"{id_}-quiet-table")
        blocks.append(Fold(summary=f"✓ {plural(len(quiet), 'environment check')} without a warning", blocks=(table,)))
    return tuple(blocks)


def _noise_lead(disturbing: Sequence[PreflightCheck], checks: Sequence[PreflightCheck], before: str) -> str:
    if not disturbing:
        return f"No source of noise was found: {plural(len(checks), 'check')} before {before}."
    text = names(list(dict.fromkeys(check_name(check) for check in disturbing)), most=5)
    return f"Possible sources of noise, found before {before}: {text}."


def _checks(chosen: Sequence[PreflightCheck], who: Mapping[PreflightCheck, str] | None, id_: str) -> Table:
    return table_of(
        sorted(chosen, key=lambda check: _ORDER.index(check.status)),
        (
            ("Check", "name"),
            ("Configuration" if who else None, lambda check: (who or {})[check]),
            ("Found", lambda check: check.value or None),
            ("Status", "status", lambda status: Cell(text=status, kind="warn" if status == "warning" else "")),
            ("Why it matters", "why"),
            ("What to do", "remedy"),
        ),
        id_=id_,
        caption="Possible sources of noise",
    )


def _who(labels: Sequence[str], group: Sequence[Result]) -> str:
    return "all" if len(labels) == len(group) else names(labels)


def system_section(group: Sequence[Result], id_: str) -> PageSection:
    """Return the section on system descriptions, resolved configurations and software: first the differences, then
    equal values."""
    blocks: list[Block] = []
    for key, title, entries in (
        ("description", "System description, in the field names of MLPerf®", [_system(result) for result in group]),
        ("configuration", "Resolved configuration", [_configuration(result) for result in group]),
        ("environment", "Software and environment", [_environment(result) for result in group]),
    ):
        known = [result for result, entry in zip(group, entries, strict=True) if entry]
        if not known:
            blocks.append(Prose(text=f"{title}: not recorded.", kind="absent"))
            continue
        blocks += _compared(known, [entry for entry in entries if entry], title, f"{id_}-{key}")
        if len(known) < len(group):
            without = [result.label for result in group if result not in known]
            blocks.append(Prose(text=f"{title}: not recorded for {names(without)}.", kind="note"))
    heading = "Systems and configurations" if len(group) > 1 else "System and configuration"
    return PageSection(id=f"{id_}-system", heading=heading, name="System", blocks=tuple(blocks))


def _compared(sets: Sequence[Result], entries: Sequence[Entries], title: str, id_: str) -> list[Block]:
    keys = list(dict.fromkeys(key for entry in entries for key in entry))
    differing = [key for key in keys if len({entry.get(key, ("", ""))[0] for entry in entries}) > 1]
    shared = {key: next(entry[key] for entry in entries if key in entry) for key in keys if key not in differing}
    alike = [key for key, (value, _) in shared.items() if value]
    empty = [key for key, (value, _) in shared.items() if not value]
    blocks: list[Block] = []
    if len(sets) > 1:
        if differing:
            caption = f"{title}: {plural(len(differing), 'difference')}"
            blocks.append(_differences(sets, entries, differing, caption, id_))
        else:
            are = "is" if len(keys) == 1 else "are"
            text = f"{title}: the {plural(len(keys), 'recorded value')} {are} the same in all sets."
            blocks.append(Prose(text=text))
    if alike or empty:
        table = _alike(shared, alike, empty, title, f"{id_}-alike")
        words = f"{title}: {plural(len(alike), 'value')}" + (", the same in all sets" if len(sets) > 1 else "")
        text = f"{words}, {len(empty)} left empty" if empty else words
        blocks.append(Fold(summary=text, blocks=(table,)))
    return blocks


def _differences(
    sets: Sequence[Result], entries: Sequence[Entries], keys: Sequence[str], caption: str, id_: str
) -> Table:
    if len(sets) <= MAX_COLUMNS:
        columns = ("Key", *(result.label for result in sets))
        rows = tuple((key, *(_value(entry.get(key)) for entry in entries)) for key in keys)
        return text_table(columns, rows, id_=id_, caption=caption, style="by-key")
    rows_by_value = []
    for key in keys:
        holders: dict[str, list[str]] = {}
        for result, entry in zip(sets, entries, strict=True):
            holders.setdefault(entry.get(key, ("", ""))[0], []).append(result.label)
        by_number = sorted(holders.items(), key=lambda item: -len(item[1]))
        for number, (value, labels) in enumerate(by_number[:MAX_VALUES]):
            first = key if number == 0 else Cell(text="″", note=key)
            rows_by_value.append((first, value or MISSING, Cell(text=str(len(labels)), sub=names(labels))))
        if rest := [label for _, labels in by_number[MAX_VALUES:] for label in labels]:
            words = f"{len(by_number) - MAX_VALUES} more values"
            rows_by_value.append((Cell(text="″", note=key), words, Cell(text=str(len(rest)), sub=names(rest))))
    columns = ("Key", "Value", "Configurations")
    return text_table(columns, rows_by_value, id_=id_, caption=caption, style="by-key")


def _value(entry: tuple[str, str] | None) -> Cell | str:
    return MISSING if entry is None or not entry[0] else Cell(text=entry[0], sub=entry[1])


def _alike(entry: Entries, keys: Sequence[str], empty: Sequence[str], title: str, id_: str) -> Table:
    has_source = any(entry[key][1] for key in keys)
    # Values that the user chose come before values of the benchmark's definition.
    keys = sorted(keys, key=lambda key: entry[key][1].startswith("definition"))
    rows: list[tuple[str, str | Cell, str]] = [(key, *entry[key]) for key in keys]
    if empty:
        rows.append(("left empty", Cell(text=", ".join(empty), kind="quiet"), ""))
    source = "Source" if has_source else None
    columns = (("Key", itemgetter(0)), ("Value", itemgetter(1)), (source, lambda row: row[2] or None))
    return table_of(rows, columns, id_=id_, caption=title, style="by-key")


def _system(result: Result) -> Entries:
    provenance = result.asked.system.provenance if result.asked else {}
    return {key: (value, provenance.get(key, "")) for key, value in result.system.fields}


def _configuration(result: Result) -> Entries:
    """Return a result's resolved configuration values; without a record, the settings in its logs or its benchmark's
    definition."""
    record, first = result.asked, result.first_run
    if record is not None and record.config:
        return config_texts(record)
    if first is None:
        return {}
    logged = {
        "global_batch_size": first.global_batch_size,
        "opt_base_learning_rate": first.learning_rate,
        "train_samples": first.train_samples,
        "eval_samples": first.eval_samples,
        "quality_target": first.quality_target,
    }
    origins = dict.fromkeys(first.from_definition, "definition")
    return {key: (printable(value), origins.get(key, "log")) for key, value in logged.items() if value is not None}


def _environment(result: Result) -> Entries:
    return {key: (value, "") for key, value in environment_texts(result.asked).items()}
