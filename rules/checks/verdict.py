"""Define the verdict of the rules on a log, a result set, a submission or a round."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, cast

import msgspec

from rules.checks.rule import SEVERITIES, Finding, Outcome, Severity
from rules.official.opinion import OfficialOpinion

Level = Literal["log", "set", "submission", "round"]
VerdictOutcome = Literal["valid", "invalid", "incomplete", "not judged"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Verdict of the rules on one log, one result set, one submission or one round.

    `findings` and `outcomes` (results of single rules) are those of this level and of the levels below; findings come
    worst first. `parts` holds the verdicts of the level below: the logs of a set, the sets of a submission, the
    submissions of a round. A verdict does not simply follow from the verdicts on its parts. A set may be valid
    although one of its logs is not, since one run that crashed or did not converge is only a warning for the set. A
    submission may be invalid although the worst of its sets is only incomplete.

    `outcome` is "not judged" if the files hold no results, or only results of MLPerf's benchmarks outside of
    recommendation. `ruleset` names the rules, and `ruleset_source` states how they were chosen. `round` is the MLPerf
    round; it is None for benchmarks that are not MLPerf's, and if the parts are of several rounds. `official` holds
    the opinions of the official checkers on this level alone.
    """

    subject: str
    level: Level
    outcome: VerdictOutcome
    benchmark: str | None
    round: str | None
    ruleset: str
    ruleset_source: str
    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]
    official: tuple[OfficialOpinion, ...] = ()
    parts: tuple["Verdict", ...] = ()

    @property
    def logs(self) -> tuple["Verdict", ...]:
        """Return the verdicts on all logs that the judged set, submission or round holds, in order; none for a log
        itself."""
        return tuple(part for part in self.walk() if part.level == "log" and part is not self)

    def walk(self) -> Iterator["Verdict"]:
        """Yield this verdict, then those on the parts (submissions, sets, logs) of what it judges, at every level, in
        order."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def own_findings(self) -> tuple[Finding, ...]:
        """Return the findings on the judged log, set, submission or round itself, without those on its parts."""
        below = {finding for part in self.parts for finding in part.findings}
        return tuple(finding for finding in self.findings if finding not in below)

    @property
    def trained_by(self) -> str | None:
        """Return the name of the implementation or model that trained, if RS123 found that it was not the harness's
        own; else None."""
        return next((finding.found for finding in self.findings if finding.code == "RS123"), None)

    @property
    def own_code(self) -> str:
        """Return a clause with the name of the code that trained where it was not the harness's own, as "; own code:
        …"; else the empty string."""
        return "" if self.trained_by is None else f"; own code: {self.trained_by}"

    def count(self, severity: Severity) -> int:
        """Return the verdict's number of problems of a severity, including problems that are counted and not
        listed."""
        return sum([finding.number for finding in self.findings if finding.severity == severity])


def worst_first(outcomes: Iterable[Outcome]) -> tuple[Finding, ...]:
    """Return the findings of the results of all rules, errors before warnings."""
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def has_error(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def relocate(part: T, old: str, new: str) -> T:
    """Return a verdict on a copy of files, or a part of the verdict, with the path `old` of the copy replaced
    everywhere by `new`."""
    moved: Any = part
    if isinstance(part, str):
        moved = part.replace(old, new)
    elif isinstance(part, tuple):
        moved = tuple(relocate(inner, old, new) for inner in part)
    elif isinstance(part, Outcome):
        moved = msgspec.structs.replace(
            part, **{name: relocate(getattr(part, name), old, new) for name in Outcome.__struct_fields__}
        )
    elif isinstance(part, Verdict | Finding | OfficialOpinion):
        moved = replace(
            part, **{member.name: relocate(getattr(part, member.name), old, new) for member in fields(part)}
        )
    return cast(T, moved)
