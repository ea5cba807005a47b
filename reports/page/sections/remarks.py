"""Words the remarks that a reader needs before believing the scores: INVALID results, and unusual circumstances of
measurement."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from reports.document.findings import broken_rules
from reports.results.result import Result
from reports.text.formatting import names, percent, plural, printable
from rules.checks.rule import SEVERITIES, Finding, count_problems
from rules.checks.verdict import Verdict
from rules.judge.agreement import is_accepted_by_round

_USUAL_SPREAD = 0.10
MAX_WARNINGS = 12


def group_warnings(group: Sequence[Result]) -> tuple[str, ...]:
    """Return the remarks that a reader needs before believing a group's scores. All remarks on INVALID sets come
    first. They are followed by the first MAX_WARNINGS other remarks, and by a sentence with the number of remarks
    left out. Remarks with equal text are merged into one."""
    refused = _said_of([(sentence, result.label) for result in group for sentence in _refusals(result)], len(group))
    remarks = _said_of(
        [(text, result.label) for result in group for text in (*_warnings(result), *result.problems)], len(group)
    )
    hidden = len(remarks) - MAX_WARNINGS
    return (*refused, *remarks[:MAX_WARNINGS], *([f"{hidden} more remarks are not listed."] if hidden > 0 else []))


def _said_of(pairs: Sequence[tuple[str, str]], num_sets: int) -> list[str]:
    """Return each remark once; where the page has several sets, the labels of the sets that the remark is about come
    before it."""
    said: dict[str, list[str]] = {}
    for sentence, label in pairs:
        said.setdefault(sentence, []).append(label)
    return [
        sentence
        if num_sets == 1
        else f"{f'All {num_sets} sets' if len(labels) == num_sets > 2 else names(labels)}: {sentence}"
        for sentence, labels in said.items()
    ]


def _refusals(result: Result) -> Iterator[str]:
    """Yield, as sentences, the rule violations that make a set, its submission or its MLPerf round INVALID."""
    if result.outcome == "invalid":
        yield f"INVALID by the rules, {_errors(result.verdict.findings)}."
    for verdict in result.levels:
        if errors := _errors(verdict.own_findings):
            yield f"in the {verdict.level} {level_name(verdict)}, which is INVALID: {errors}."


def broken_codes(result: Result) -> list[str]:
    """Return the codes of the rules that a set's logs break with an error, each once; none for a set without logs."""
    findings = () if result.judged is None else result.verdict.findings
    return list(dict.fromkeys(finding.code for finding in findings if finding.severity == "error"))


def refusal_words(refused: Sequence[Result]) -> str:
    """Return in words which rules make sets of official benchmarks INVALID here: 'INVALID here by CA101'. If the
    official MLPerf checker accepts all of the sets, the words add that: 'INVALID here by CA101, which the official
    checker does not test (it says SUCCESS)'."""
    codes = list(dict.fromkeys(code for result in refused for code in broken_codes(result)))
    text = f"INVALID here by {names(codes)}" if codes else "INVALID here"
    if codes and all(result.judged is not None and is_accepted_by_round(result.verdict) for result in refused):
        text += ", which the official checker does not test (it says SUCCESS)"
    return text


def _errors(findings: Sequence[Finding]) -> str:
    """Return the number of errors among findings, and the rules broken: '10 errors; broken rules: CA101
    (evaluations must come as often as the benchmark says)'; '' without errors."""
    errors = [finding for finding in findings if finding.severity == "error"]
    return f"{plural(count_problems(errors)['error'], 'error')}; {broken_rules(errors, 'error')}" if errors else ""


def level_name(verdict: Verdict) -> str:
    """Return the name of the directory of the submission or round that a verdict is about."""
    return printable(PurePath(verdict.subject).name or verdict.subject, 80)


def _warnings(result: Result) -> tuple[str, ...]:
    found = []
    for label, number in Counter(run.repeats for run in result.runs if run.repeats).items():
        found.append(
            f"{number} of the set's {plural(len(result.runs), 'run')} are those of {label}, and drawn only with that "
            "set."
        )
    if result.score.score_s is None:
        found.append(f"No score: {printable(result.score.no_score_reason or 'the runs do not make one')}.")
    elif result.score.rcp_outcome in ("failed", "missing"):
        found.append(f"By the test against reference convergence points, {printable(result.score.rcp_reason)}.")
    if len(result.codes) > 1:
        digests = ", ".join(code[:12] for code in result.codes)
        found.append(f"The runs were made by {len(result.codes)} different versions of the code ({digests}).")
    spread = result.summary("time_to_train_s")
    if spread and spread.coefficient_of_variation and spread.coefficient_of_variation > _USUAL_SPREAD:
        found.append(
            f"Times vary by {percent(spread.coefficient_of_variation)} between runs, more than the 2 to 10 % usual "
            "for DLRM; more runs narrow the interval of their mean."
        )
    return tuple(found)


def count_words(findings: Sequence[Finding]) -> str:
    """Return the number of findings of each severity, '1 error, 2 warnings, 3 infos'; severities without findings are
    left out."""
    counts = count_problems(findings)
    return ", ".join(plural(counts[severity], severity) for severity in SEVERITIES if counts[severity])
