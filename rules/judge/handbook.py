"""The rule reference, rules/README.md, made from the rules themselves: `dlrmbench schema rules_page` prints it."""

from collections.abc import Iterator
from types import CodeType
from typing import Any

from rules.checks.rule import FAMILIES, LOOKED_AT_BY, LOOKED_AT_FOR, Rule, family_of
from rules.checks.verdict import Level
from rules.judge.families import RULES

_HEAD = """# The rules

What `dlrmbench check` judges by: {num_rules} rules in {num_families} families. This page is made from the rules
(`dlrmbench schema rules_page > rules/README.md`); `dlrmbench check --explain CODE` shows one of them,
`--explain all` lists them.

## How to read a finding

    error  HP101  not met: hyperparameters are those that the division allows
        result_1.txt:9: opt_adagrad_epsilon is not what Closed allows; found 1e-07; expected 1e-08
        fix: Run with the definition's values.
        rule: training_rules.adoc, "Hyperparameters"

The first line gives the severity, the rule's code and what it requires, which is not met. Then come the place (the
line of the file, as an editor counts it), what was found and what was expected; then what to do, and where the
requirement comes from. A finding without a line concerns the whole file or directory.

| severity | means |
|---|---|
| error | a rule is broken: the verdict is INVALID and `check` leaves with 3 |
| warning | allowed, or judged by nobody else, but a reviewer would ask; does not change the verdict |
| info | worth knowing |

| outcome of a rule | means |
|---|---|
| pass | judged, and nothing found |
| fail | at least one finding, of whatever severity |
| skip | not judged, with the reason: it does not apply, or a rule that it builds on is broken in a key that it reads
|

| level | what is judged | its verdict |
|---|---|---|
| log | one run | by the rules of logs alone |
| set | a directory of `result_<i>.txt` | its own rules and those of its logs; a run that did not converge \
or crashed is forgiven as the dropped slowest. Too few runs make it INCOMPLETE, which is no violation |
| submission | an organisation's `systems/`, `results/`, `benchmarks/` | its own rules and its sets |
| round | a directory of submissions | its own rules and its submissions |

MLPerf's other benchmarks, known by their logs or else by the directory's name, are NOT JUDGED. The
official checkers are not asked about these, nor about logs with lines above 64 KB. A round of 20,000 files takes
1.6 s of CPU time, and 15 s with the official checkers: `python tests/performance/round.py` on two cores of an Intel
Xeon.

| exit code of `check` | when |
|---|---|
| 0 | every verdict is VALID or INCOMPLETE, or NOT JUDGED beside one of these |
| 2 | wrong usage, or a broken definition |
| 3 | at least one verdict is INVALID, or has a warning under `--fail-on warning`. An empty log is INVALID |
| 8 | a path is missing or cannot be read, or nothing in it is ours to judge: NOT JUDGED |

## What a verdict proves

Logs alone prove that they agree with the rules and with themselves; anyone can write such logs. A set of this harness
with its `extra/` shows besides

- that each log has the bytes that its run closed (RS116), and that no run that finished is missing (RS117) or was
  made again: runs are in the order of their numbers (RS132), and each run's record holds the digest of that of the
  run before, across `resume` (RS131). Sets that an earlier version began have no such chain, which is said; then
  only the order speaks, and gaps with room for a run (RS114). An attempt that was interrupted is no run, and not in
  the chain;
- that the files of the dataset, as the run had them open, held the bytes that the definition pins, and were not
  changed meanwhile (RS118): they are hashed after `run_stop`, by the process that read them and through the same
  descriptors, of every run and on every machine, 16 MB in some 0.04 s. The run's clock sees a look at each file's
  times. Where a process was killed before it had hashed them, a warning says that nothing is known of them;
- that another process saw each run take no longer than its log says, within 0.25 s and 1 % of the run (RS121). That
  process, the run's timekeeper, starts the run's own, and runs none of the user's code, no start-up file of Python
  (sitecustomize, .pth, PYTHONPATH) and no preloaded library; it sees run_start, run_stop and the process's end as
  they come. Nor does the command that keeps and judges runs import own code: it looks at it in a child. (Runs that
  are asked for from Python are kept by the caller's process, with whatever that has imported.) No sample was read
  before run_start (RS133), and which start-up files ran in the run's process is on record (RS134);
- that seeds, threads, batch size, code and system are the same in all records, and moments those of the logs (RS122);
- of an own benchmark in Closed, at batch sizes with reference points, that it converged no faster than luck allows
  (RC101).

Nothing is signed, for there is no secret that the maker of a set does not have. VALID is therefore also a set

- whose logs and records were written together, with care, or by a changed harness: the digest of the code that ran is
  in each record, for whoever compares it with that of the release;
- that was chosen among whole sets, or whose base seed was (`--seed`): at a coefficient of variation of 4 %, the best
  of 20 sets of five needs some 3 % fewer samples than the mean. Ask for a base seed that you name;
- of an implementation or model of one's own (RS123 names it, and it is said beside the verdict), which runs in the
  process that writes the log and computes the quality. It may skip steps and count them, read other data, carry
  weights from run to run, or report qualities and optimizers that are not so; it may train off the clock on data that
  it opens itself, of which only the processor time is on record. Its digest is in the configuration;
- whose clock is slow by less than the tolerance: 0.25 s and 1 % of a run. Accidents and plain cheats are found, such
  as a bent clock, events that come late or never, and a sitecustomize. Code that means to deceive, and knows the
  timekeeper, can: it may write the records of its own run;
- whose ranks torchrun or srun started: such a run has no timekeeper, and a clock that own code bends is seen only
  where the system's calendar disagrees, which is a warning;
- whose last runs were thrown away and made again, with the link of `extra/last_run` set back; or whose slow attempts
  were interrupted before they ended: those stay in `extra/` until somebody removes them;
- whose data was changed and set back by whoever may set the system's clock, write to the disk below the file system,
  or hold the file mapped for writing on a tmpfs, where ctime stays; or between the blocks of a dataset of more than
  16 GiB.

Whoever must rely on a result asks for the set with its `extra/` and makes one of its runs again: on the same software
and kind of system, a run of the same seed, number of threads and choice of products (`--matmul`) evaluates to the
same qualities.

The official checkers run confined: their process may change and read only its folder and Python's own, start nothing,
connect to nothing and import nothing more, within limits of time and memory. That is no sandbox against code made to
break out of Python.

## What nobody checks

Rules of the documents that neither a rule here nor an official checker looks at, so that VALID says nothing of them:

{uncovered}

## Families

| letters | family | judged at | rules | official checkers that look at it |
|---|---|---|---:|---|
"""


UNCOVERED: tuple[tuple[str, str, str], ...] = (
    (
        "training_rules",
        "Results Resubmission",
        "Logs of an earlier round may be submitted again where the system's description is the same in both rounds: "
        "rounds are judged one by one, and nobody holds two against one another.",
    ),
    (
        "training_rules",
        "System and framework must be consistent",
        "All results of a submission are of one system and framework: a description is looked at by itself, and no "
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
        "How efficiently AC was converted to DC is documented: conversion_eff is read, and no document of it.",
    ),
    (
        "power_measurement",
        "Target 5% Accuracy",
        "A power meter is accurate within 5 %: files of readings name no meter.",
    ),
    (
        "training_rules",
        "Hyperparameter Borrowing",
        "Borrowed hyperparameters are replaced as a group, once per benchmark: the logs before are not there.",
    ),
    (
        "training_rules",
        "Closed Division",
        "Preprocessing, model, initialisation, loss and order of the data are those of the reference: logs do not "
        "show them, and code is only asked to be there (SU102).",
    ),
    (
        "training_rules",
        "Pre-training is not allowed",
        "Nothing about the dataset or a trained state is encoded in the implementation.",
    ),
)
"""Rules that no code covers: the document, its heading, and what it demands."""


def render_page() -> str:
    """Return the whole page."""
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
        looked += f", of {', '.join(sorted(LOOKED_AT_FOR[family]))} alone" if family in LOOKED_AT_FOR else ""
        lines.append(f"| {family} | [{_name(family)}](#{_anchor(family)}) | {judged} | {len(codes)} | {looked} |")
    lines += [
        "",
        "Codes are never reused. Ours and theirs are side by side in every verdict that theirs can give.",
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
    yield f"*{rule.severity}, of a {level}.* {_text(rule.explanation)}".rstrip()
    yield ""
    yield f"- **Fix:** {_text(rule.remedy)}"
    yield f"- **Source:** {_text(rule.source)}"
    if reasons := tuple(dict.fromkeys(_reasons(rule.applies.__code__))):
        yield f"- **Skipped, saying:** {'; '.join(map(_text, reasons))}"
    if rule.requires:
        yield f"- **Judged only where these hold:** {', '.join(sorted(rule.requires))}"


def _reasons(code: CodeType) -> Iterator[str]:
    """The sentences that a rule's `applies` can return: its texts, without its docstring."""
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
    """Text of a rule as Markdown: what looks like a tag or a placeholder stays visible."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
