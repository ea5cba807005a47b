"""Ask MLPerf's official checkers about judged logs, sets and submissions, and attach their opinions to the
verdicts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rules.checks.verdict import Verdict
from rules.official.opinion import CheckerName, CheckerQuery, OfficialOpinion, OnProgress, ask_official_checkers

_OF_SET: tuple[CheckerName, ...] = ("seed", "rcp")


def with_second_opinion(
    verdicts: Sequence[Verdict],
    timeout_s: float | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Verdict, ...]:
    """Return the verdicts with the opinions of MLPerf's official checkers added at every level (log, set,
    submission). One process answers all questions to the checkers.

    The compliance checker gets each log. The seed checker and the checker of reference convergence points get each
    set. The checker of system descriptions gets each system description. The package and the repository checker get
    each submission as a whole. MLPerf's benchmarks outside of recommendation are hidden from the package checker,
    since this harness's rules do not judge them. Logs of benchmarks that are undefined or not MLPerf's are left out
    too, since the official checkers do not know them. `on_progress` is called with the number of answered questions
    and of all questions.
    """
    parts = [part for verdict in verdicts for part in verdict.walk()]
    questions = tuple(dict.fromkeys(question for part in parts for question in _questions(part)))
    opinions = dict(zip(questions, ask_official_checkers(questions, timeout_s, on_progress), strict=True))
    return tuple(_attach(verdict, opinions) for verdict in verdicts)


def _attach(verdict: Verdict, opinions: dict[CheckerQuery, OfficialOpinion]) -> Verdict:
    return replace(
        verdict,
        official=tuple(opinions[question] for question in _questions(verdict)),
        parts=tuple(_attach(part, opinions) for part in verdict.parts),
    )


def _questions(verdict: Verdict) -> Iterator[CheckerQuery]:
    """Yield what the official checkers are asked about the log, set or submission that a verdict judges; questions
    about its parts are not included."""
    path, round_name = Path(verdict.subject), _round(verdict)
    if round_name is None or verdict.outcome == "not judged":
        return
    if verdict.level == "log":
        yield CheckerQuery(checker="compliance", path=path, round=round_name)
    elif verdict.level == "set" and round_name != "0.7":  # these checkers exist from round 1.0 on
        logs = tuple(Path(part.subject) for part in verdict.parts)
        for name in _OF_SET if logs else ():
            yield CheckerQuery(checker=name, path=path, round=round_name, logs=logs)
        if (system := _system_of(path)) is not None:
            yield CheckerQuery(checker="system", path=system, round=round_name)
    elif verdict.level == "submission":
        asked = {_system_of(Path(part.subject)) for part in verdict.parts if part.outcome != "not judged"}
        others = {Path(part.subject) for part in verdict.parts if part.outcome == "not judged"}
        unasked = {system for place in others if (system := _system_of(place)) is not None} - asked
        for system in sorted({*(path / "systems").glob("*.json")} - asked - unasked):
            yield CheckerQuery(checker="system", path=system, round=round_name)
        yield CheckerQuery(checker="package", path=path, round=round_name, without=(*sorted(others | unasked),))
        yield CheckerQuery(checker="repo", path=path, round=round_name)


def _system_of(folder: Path) -> Path | None:
    """Return the path of the system description for the result set in results/<system>/<benchmark>; None where there
    is none."""
    if len(folder.parents) < 3 or folder.parents[1].name != "results":
        return None
    path = folder.parents[2] / "systems" / f"{folder.parents[0].name}.json"
    return path if path.is_file() else None


def _round(verdict: Verdict) -> str | None:
    """Return the MLPerf round by whose rules a verdict was reached; for a submission whose parts are of several
    rounds, the most frequent of these rounds; None where none is known."""
    if verdict.round is not None or verdict.level not in ("submission", "round"):
        return verdict.round
    rounds = Counter(name for part in verdict.parts if (name := _round(part)) is not None)
    return rounds.most_common(1)[0][0] if rounds else None
