"""Make the rule reference, rules/README.md, from the rules themselves: `dlrmbench schema rules_page` prints it."""

from collections.abc import Iterator
from types import CodeType
from typing import Any

from rules.checks.rule import FAMILIES, LOOKED_AT_BY, LOOKED_AT_FOR, Rule, family_of
from rules.checks.verdict import Level
from rules.judge.families import RULES

_HEAD = """# The rules

The rules that `dlrmbench check` applies: {num_rules} rules in {num_families} families. This page is made from the
rules (`dlrmbench schema rules_page > rules/README.md`); `dlrmbench check --explain CODE` shows one of them,
`--explain all` lists them.

## How to read a finding

    error  HP101  broken rule: hyperparameters must have values that the division allows
        result_1.txt:9: opt_adagrad_epsilon is not what Closed allows; found 1e-07; expected 1e-08
        fix: Run with the definition's values.
        rule: training_rules.adoc, "Hyperparameters"

The first line gives the severity, the rule's code and the requirement that is not met. Then come the place (the line
of the file, as an editor counts it), the value found and the value expected; then the remedy, and the source of the
requirement. A finding without a line concerns the whole file or directory.

| severity | means |
|---|---|
| error | a rule is broken: the verdict is INVALID and `check` exits with 3 |
| warning | allowed, or checked by no official tool, but a reviewer would ask; does not change the verdict |
| info | worth knowing |

| outcome of a rule | means |
|---|---|
| pass | judged, without a finding |
| fail | at least one finding, of whatever severity |
| skip | not judged, with the reason: it does not apply, or a rule that it requires is broken in a key that it reads |

| level | what is judged | its verdict |
|---|---|---|
| log | one run | by the rules of logs alone |
| set | a directory of `result_<i>.txt` | its own rules and those of its logs; one run that did not converge \
or crashed is forgiven as the dropped slowest. Too few runs make it INCOMPLETE, which is no violation |
| submission | an organisation's `systems/`, `results/`, `benchmarks/` | its own rules and its sets |
| round | a directory of submissions | its own rules and its submissions |

MLPerf's other benchmarks, recognised by their logs or else by the directory's name, are NOT JUDGED. The official
checkers are not asked about these, nor about logs with lines above 64 KB. A round of 20,000 files takes 1.6 s of
CPU time, and 15 s with the official checkers: `python tests/performance/round.py` on two cores of an Intel Xeon.

| exit code of `check` | when |
|---|---|
| 0 | every verdict is VALID or INCOMPLETE, or NOT JUDGED beside one of these |
| 2 | an error in the command line, or a broken definition |
| 3 | at least one verdict is INVALID, or has a warning under `--fail-on warning`. An empty log is INVALID |
| 8 | a path is missing or cannot be read, or holds nothing that dlrmbench judges: NOT JUDGED |

## What a verdict proves

Logs alone prove that they agree with the rules and with themselves; anyone can write such logs. A set of this
harness with its `extra/` shows in addition

- that each log has the bytes that its run closed (RS116), and that no finished run is missing (RS117) or was
  repeated: runs are in the order of their numbers (RS132), and each run's record holds the digest of the previous
  run's record, across `resume` (RS131). Sets that an earlier version began have no such chain, which is reported;
  then only the order of the runs, and gaps with room for a run (RS114), are evidence. An interrupted attempt is no
  run, and not in the chain;
- that the files of the dataset, as the run had them open, held the bytes that the definition pins, and were not
  changed meanwhile (RS118): they are hashed after `run_stop`, by the process that read them and through the same
  descriptors, for every run and on every machine, 16 MB in some 0.04 s. Inside the timed part only each file's
  times are read. Where a process was killed before it had hashed the files, a warning says that their content is
  unknown;
- that another process saw each run take no longer than its log states, within 0.25 s and 1 % of the run (RS121).
  That process, the run's timekeeper, starts the run's process, and runs none of the user's code, no start-up file
  of Python (sitecustomize, .pth, PYTHONPATH) and no preloaded library; it sees run_start, run_stop and the
  process's end when they happen. The command that manages and judges runs does not import own code either: a child
  process inspects it. (Runs started from Python are managed by the caller's process, with whatever it has
  imported.) No sample was read before run_start (RS133), and the start-up files that ran in the run's process are
  on record (RS134);
- that seeds, threads, batch size, code and system are the same in all records, and times those of the logs (RS122);
- for an own benchmark in Closed, at batch sizes with reference points, that it converged no faster than luck allows
  (RC101).

Nothing is signed, since the maker of a set holds every secret that could sign it. A set may therefore be VALID
although

- its logs and records were written together, with care, or by a changed harness: the digest of the code that ran is
  in each record, and can be compared with that of the release;
- it was chosen among several sets, or its base seed was (`--seed`): at a coefficient of variation of 4 %, the best
  of 20 sets of five needs some 3 % fewer samples than the mean. Ask for a base seed that you name;
- its implementation or model is the submitter's own (RS123 names it, also beside the verdict). That code runs in
  the process that writes the log and computes the quality. It may skip steps and count them, read other data, carry
  weights from run to run, or report false qualities and optimizers; it may train outside of the timed part on data
  that it opens itself, of which only the processor time is on record. Its digest is in the configuration;
- its clock is slow by less than the tolerance: 0.25 s and 1 % of a run. Accidents and simple manipulations are
  found, such as a changed clock, events that come late or never, and a sitecustomize. Code that means to deceive
  and knows the timekeeper is not found: it may write the records of its own run;
- torchrun or srun started its ranks: such a run has no timekeeper, and a clock that own code changes is noticed
  only where the system's calendar disagrees, which is a warning;
- its last runs were removed and made again, with the link of `extra/last_run` set back; or its slow attempts were
  interrupted before they ended: those stay in `extra/` until somebody removes them;
- its data was changed and set back by somebody who may set the system's clock, write to the disk below the file
  system, or hold the file mapped for writing on a tmpfs, where ctime stays; or between the blocks of a dataset of
  more than 16 GiB.

If you must rely on a result, ask for the set with its `extra/` and repeat one of its runs: on the same software and
kind of system, a run with the same seed, number of threads and choice of products (`--matmul`) evaluates to the
same qualities.

The official checkers run confined: their process may read only its folder and Python's own, and change only its
folder; it cannot start programs, open connections or import further modules, within limits of time and memory. That
is no sandbox against code made to break out of Python.

## What nobody checks

Requirements of the documents that neither a rule here nor an official checker tests, so that VALID implies nothing
about them:

{uncovered}

## Families

| letters | family | judged at | rules | official checkers that test it |
|---|---|---|---:|---|
"""


UNCOVERED: tuple[tuple[str, str, str], ...] = (
    (
        "training_rules",
        "Results Resubmission",
        "Logs of an earlier round may be submitted again where the system's description is the same in both rounds: "
        "rounds are judged one by one, and no tool compares two rounds.",
    ),
    (
        "training_rules",
        "System and framework must be consistent",
        "All results of a submission are of one system and framework: a description is checked by itself, and no "
        "log names its framework.",
    ),
    (
        "submission_rules",
        "Preview Systems",
        "A preview is submitted as available in the next round, or the next after 140 days, with at least 98 % of "
        "its performance: 'report' shows several rounds side by side, and draws no conclusion.",
    ),
    (
        "submission_rules",
        "Research, Development, or Internal Systems",
        "What was submitted as RDI is not submitted as available before the round after next, or 221 days.",
    ),
    (
        "power_measurement",
        "Measure at the PSUs",
        "The efficiency of the AC to DC conversion is documented: conversion_eff is read, its documentation is not.",
    ),
    (
        "power_measurement",
        "Target 5% Accuracy",
        "A power meter is accurate within 5 %: files of readings do not name the meter.",
    ),
    (
        "training_rules",
        "Hyperparameter Borrowing",
        "Borrowed hyperparameters are replaced as a group, once per benchmark: the earlier logs are not there.",
    ),
    (
        "training_rules",
        "Closed Division",
        "Preprocessing, model, initialisation, loss and order of the data are those of the reference: logs do not "
        "show them, and code is only required to be there (SU102).",
    ),
    (
        "training_rules",
        "Pre-training is not allowed",
        "Nothing about the dataset or a trained state is encoded in the implementation.",
    ),
)
"""Requirements of MLPerf's rules that no rule of this harness checks, each with the name and heading of MLPerf's
document that states it."""


def render_page() -> str:
    """Return the whole page of the rule reference as Markdown."""
    levels = {rule.code: level for level, rules in RULES.items() for rule in rules}
    every = {rule.code: rule for rules in RULES.values() for rule in rules}
    order = [*FAMILIES, *map(family_of, every)]
    families = sorted({family_of(code) for code in every}, key=order.index)
    uncovered = "\n".join(f'- {document}.adoc, "{heading}". {words}' for document, heading, words in UNCOVERED)
    head = _HEAD.format(num_rules=len(every), num_families=len(families), uncovered=uncovered)
    lines = [head.rstrip()]
    for family in families:
        codes = sorted(code for code in every if family_of(code) == family)
        judged = ", ".join(dict.fromkeys(levels[code] for code in codes))
        looked = ", ".join(LOOKED_AT_BY.get(family, ())) or "none"
        looked += f", for {', '.join(sorted(LOOKED_AT_FOR[family]))} alone" if family in LOOKED_AT_FOR else ""
        lines.append(f"| {family} | [{_name(family)}](#{_anchor(family)}) | {judged} | {len(codes)} | {looked} |")
    lines += [
        "",
        "Codes are never reused. `check` compares these verdicts with the official checkers' wherever they give one.",
        "",
    ]
    for family in families:
        lines += [f"## {_anchor(family)}", ""]
        for code in sorted(code for code in every if family_of(code) == family):
            lines += [*_describe(every[code], levels[code]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _describe(rule: Rule[Any], level: Level) -> Iterator[str]:
    yield f"### {rule.code}: {rule.title}"
    yield ""
    yield f"*{rule.severity}, of a {level}.* {_text(rule.summary)}".rstrip()
    yield ""
    if rule.cases:
        # Another mark than that of the list below, so that these are a list of their own.
        yield from (f"* {_text(case)}" for case in rule.cases)
        yield ""
    yield f"- **Fix:** {_text(rule.remedy)}"
    yield f"- **Source:** {_text(rule.source)}"
    if reasons := tuple(dict.fromkeys(_reasons(rule.applies.__code__))):
        yield f"- **Skipped with the reason:** {'; '.join(map(_text, reasons))}"
    if rule.requires:
        yield f"- **Judged only where these rules hold:** {', '.join(sorted(rule.requires))}"


def _reasons(code: CodeType) -> Iterator[str]:
    """Yield the reasons why a rule may not apply, which its function `applies` can return. They are found as that
    function's string constants, without its docstring."""
    for index, value in enumerate(code.co_consts):
        if isinstance(value, CodeType):
            yield from _reasons(value)
        elif isinstance(value, str) and " " in value and not (index == 0 and value.endswith(".")):
            yield value


def _name(family: str) -> str:
    return FAMILIES.get(family, family)


def _anchor(family: str) -> str:
    return f"{family.lower()}-{_name(family).replace(' ', '-')}"


def _text(text: str) -> str:
    """Return a rule's text as Markdown in which anything that looks like an HTML tag or a placeholder stays
    visible."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
