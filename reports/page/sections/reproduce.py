"""Makes the section on reproducing results: commands, the files of the results, and records that are missing."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from reports.document.blocks import Block, Bullets, Command, Fact, Facts, Fold, Heading, Prose, in_portions, table_of
from reports.document.page import PageSection
from reports.facts.energy import explain_missing, explain_ranks
from reports.facts.reference_points import own_definition
from reports.page.figures.detail import detail_words, detailed
from reports.parts.cost import energy_records
from reports.results.provenance import order_in_pair, pair_of, search_of, seeded_command, with_seed
from reports.results.records import commit_of
from reports.results.result import Result
from reports.text.formatting import MISSING, count, names, plural, printable
from rules.logs.text import printable as escape_controls
from rules.records.codec import encode
from rules.records.run_set import MATMUL_FILE, RunSetRecord

MAX_OPEN = 3
MAX_VALUES = 300
_TAKE_MATMUL = (["run"], ["sweep"])
"""Commands of `dlrmbench` with the option --matmul, which reads the method for each matrix product from a file. All
other commands find the fastest method by timing."""
_SCOPES = {"whole": "Dataset: sha256, measured", "blocks": "Dataset: sha256 of blocks, measured"}


def reproduce_section(group: Sequence[Result], id_: str) -> PageSection:
    """Return the section with commands to copy, and with digests and checksums of results; text that is the same for
    several results appears once."""
    facts, definitions = [_facts(result) for result in group], [own_definition(result) for result in group]
    is_one_definition = len(group) > 1 and len(set(definitions)) == 1
    shared = tuple(fact for fact in facts[0] if all(fact in other for other in facts)) if len(group) > 1 else ()
    blocks: list[Block] = []
    folds = []
    shown = {result.index for result in detailed(group)}
    for member, mine, definition in zip(group, facts, definitions, strict=True):
        if member.index not in shown:
            continue
        own: tuple[Block, ...] = (
            *_definition(member, None if is_one_definition else definition),
            *_commands(member),
            Facts(facts=tuple(fact for fact in mine if fact not in shared)),
            *_files(member, f"set{member.index + 1}-files"),
        )
        if len(group) == 1:
            blocks += own
        else:
            folds.append(Fold(summary=member.label, blocks=own, is_open=len(group) <= MAX_OPEN))
    if words := detail_words(group):
        blocks.append(Prose(text=words))
    blocks += in_portions(folds)
    if shared:
        blocks += [Heading(text="The same in all configurations"), Facts(facts=shared)]
    if is_one_definition:
        blocks += _definition(group[0], definitions[0])
    if missing := _missing(group):
        heading = "Missing from this result" if len(group) == 1 else "Missing from these results"
        blocks += [Heading(text=heading), Bullets(items=missing)]
    return PageSection(id=f"{id_}-reproduce", heading="Reproduce and verify", name="Reproduce", blocks=tuple(blocks))


def _definition(member: Result, text: str | None) -> Iterator[Block]:
    """Yield the definition of a user's own benchmark (not shipped), from the copy in the result set."""
    if text is not None:
        length = plural(len(text.splitlines()), "line")
        words = f"The definition of {member.benchmark_name}, as it was run: {length} of TOML"
        yield Fold(summary=words, blocks=(Command(text=text),))


def _commands(member: Result) -> Iterator[Block]:
    """Yield the blocks from which a reader can make a result set again: first the configuration values that were
    given in files, then the environment variables to set and the recorded command, with seed and number of runs
    added. If no command was recorded, yield a sentence that says so."""
    record = member.asked
    if record is None or not record.command:
        yield Prose(text="The command was not recorded.", kind="absent")
        return
    files, variables = _given(record)
    for path, tables in files.items():
        yield Prose(text=f"Configuration values given in {printable(path, 200)}:")
        yield Command(text="\n".join(map(escape_controls, tomli_w.dumps(tables).rstrip().split("\n"))))
    if files:
        yield Prose(text="Command that makes the same runs again, with the values above:")
    matmul = None if record.choice is None else record.choice.matmul
    lines = [f"export {name}={shlex.quote(value)}" for name, value in (variables | _spinning(record)).items()]
    is_of_search = search_of(member.place) is not None
    command = seeded_command(record, member.place) if is_of_search else _with_seed(record, member.place)
    yield Command(text="\n".join([*lines, command]))
    if matmul is not None:
        words = f"{MATMUL_FILE}, which says how {plural(len(matmul.products), 'matrix product')} are computed"
        yield Fold(summary=words, blocks=(Command(text=encode(matmul).rstrip()),))


def _with_seed(record: RunSetRecord, place: Path | None) -> str:
    """Return the recorded command of a run set, with options added for the number of runs, for the seed, and for
    settings that were chosen by timing (threads, matrix products).

    The number of runs is added because a set may have been extended after its command; if an option is given twice,
    the last one counts. The base of a pair measured alternately (A/B) gets no options for settings chosen by timing,
    because options at the end of a pair's command apply to the new configuration.
    """
    words = record.command.replace("=", " ").split()
    asked = {words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-n", "--runs", "--processes")}
    runs = [] if record.until is not None or asked == {str(record.num_runs)} else ["-n", str(record.num_runs)]
    command = with_seed(" ".join([record.command, *runs]), record.base_seed)
    if pair_of(place) is not None and order_in_pair(place) == 0:
        return command
    choice, chosen, threads = record.choice, list[str](), record.config.get("runtime.threads")
    if choice is not None and threads is not None and threads.value == "auto":
        chosen += ["--threads", str(choice.num_threads)]
    if choice is not None and choice.service is not None:
        for key, number in choice.service.settings.items():
            given = record.config.get(key)
            chosen += ["--set", f"{key}={number}"] if given is None or given.value == "auto" else []
    if choice is not None and choice.matmul is not None and words[1:2] in _TAKE_MATMUL:
        chosen += ["--matmul", MATMUL_FILE]
    return " ".join([command, *chosen])


def _spinning(record: RunSetRecord) -> dict[str, str]:
    """Return the environment variable that sets how long idle threads spin, with the value that timing showed to be
    best for the result set; empty where this was not timed."""
    choice = record.choice
    return {} if choice is None or choice.spin_count is None else {"GOMP_SPINCOUNT": str(choice.spin_count)}


def _is_plain(value: object) -> bool:
    """Return True if a TOML file can hold the value, which comes from a record that anyone may have written."""
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float | bool)


def _given(record: RunSetRecord) -> tuple[dict[str, dict[str, dict[str, Any]]], dict[str, str]]:
    """Return the configuration values that a set was given, as two dicts: values in files, from file to section to
    key, and values in environment variables, from name to value."""
    files: dict[str, dict[str, dict[str, Any]]] = {}
    variables: dict[str, str] = {}
    fields = {f"submission.{key}": (entry.value, entry.source) for key, entry in record.submission.items()}
    values = {key: (entry.value, entry.source) for key, entry in record.config.items()} | fields
    for name, (value, source) in list(values.items())[:MAX_VALUES]:
        kind, _, place = source.partition(" ")
        section, _, key = name.partition(".")
        if kind == "file" and _is_plain(value):
            files.setdefault(place, {}).setdefault(section, {})[key] = value
        elif kind == "environment":
            variables[printable(place, 80)] = value if isinstance(value, str) else json.dumps(value)
    return files, variables


def _facts(member: Result) -> tuple[Fact, ...]:
    record, first = member.asked, member.first_run
    facts = []
    if record is not None:
        facts += [
            Fact(name="Run set", value=record.name or MISSING),
            Fact(name="Made", value=record.created_utc or MISSING),
            Fact(name="dlrmbench", value=record.harness_version or MISSING),
            *((Fact(name="Commit", value=commit, is_code=True),) if (commit := commit_of(record)) else ()),
            *(Fact(name="Code sha256", value=code, is_code=True) for code in member.codes),
            Fact(name="Base seed", value=str(record.base_seed), is_code=True),
            Fact(name="Dataset: dir", value=record.dataset.dir or MISSING, is_code=True),
            *_dataset_digests(member, record.dataset.dataset_sha256),
        ]
    if first is not None:
        facts.append(Fact(name="Definition sha256", value=printable(first.definition_sha256), is_code=True))
        if record is None:
            facts.append(Fact(name="Dataset sha256", value=printable(first.dataset_sha256), is_code=True))
        facts.append(Fact(name="Training samples", value=count(first.train_samples)))
        facts.append(Fact(name="Evaluation samples", value=count(first.eval_samples)))
    return tuple(facts)


def _dataset_digests(member: Result, of_manifest: str | None) -> Iterator[Fact]:
    """Yield the sha256 digests of the data that a set's runs read. These are the digests that the runs recorded, of
    the whole data or of blocks of it. If the digest in the dataset's manifest differs from the recorded digest of the
    whole data, it is yielded as well. If the runs recorded no digest, only the manifest's digest is yielded, or
    MISSING if that is not known."""
    copies = [copy for run in member.runs if run.record for copy in run.record.read_data]
    of_scope = {
        scope: tuple(dict.fromkeys(copy.sha256 for copy in copies if copy.scope == scope)) for scope in _SCOPES
    }
    for scope, digests in of_scope.items():
        if digests:
            yield Fact(name=_SCOPES[scope], value=names(digests, MAX_OPEN), is_code=True)
    if not copies:
        name = "Dataset: sha256 recorded in the manifest, not computed by the runs"
        yield Fact(name=name, value=of_manifest or MISSING, is_code=True)
    elif of_manifest is not None and of_scope["whole"] not in ((), (of_manifest,)):
        yield Fact(name="Dataset: sha256 recorded in the manifest, unlike the data", value=of_manifest, is_code=True)


def _files(result: Result, id_: str) -> Iterator[Block]:
    """Yield the blocks on a result's files: a table of its logs with their digests, or, for a measurement without
    logs, the path of its file."""
    if result.judged is None:
        yield Facts(facts=(Fact(name="Measured in", value=printable(result.path), is_code=True),))
        return
    folder = str(result.judged.result_set.folder)
    table = table_of(
        result.runs,
        (
            ("File", lambda run: printable(run.log.path.removeprefix(f"{folder}/"))),
            ("sha256", "log.log_sha256", printable),
        ),
        id_=id_,
        caption=f"Logs in {printable(folder)}",
        style="by-key digests",
    )
    yield Fold(summary=f"Files and checksums: {plural(len(result.runs), 'log')}", blocks=(table,))


def _missing(group: Sequence[Result]) -> tuple[str, ...]:
    """Return the records that a group's results lack. Each comes with the part of the page that is missing because
    there is no such record."""
    absent: dict[str, list[str]] = {}
    for result in group:
        for words, is_there in (
            ("Configuration, environment and preflight are unknown: the results hold no run_set.json",
             result.asked is not None),
            ("The system description is missing: no systems/<system>.json is beside the results",
             bool(result.system.fields) or not result.is_logged),
            ("Throughput by block of training steps is unknown: no run.json is beside the logs",
             not result.is_logged or any(run.record and run.record.blocks for run in result.runs)),
            ("Peak memory was not recorded",
             any(getattr(each.record, "peak_rss_bytes", None) for each in result.repetitions)),
        ):  # fmt: skip
            if not is_there:
                absent.setdefault(words, []).append(result.label)
        for why in (explain_missing(energy_records(result)), explain_ranks(run.record for run in result.runs)):
            if why:
                absent.setdefault(why.removesuffix("."), []).append(result.label)
    return tuple(
        f"{words}." if len(labels) == len(group) else f"{words} ({names(labels)})."
        for words, labels in absent.items()
    )
