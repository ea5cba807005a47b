"""The official compliance checker's opinion on a few logs."""

from collections.abc import Sequence
from pathlib import Path

from rules.official.opinion import CheckerQuery, OfficialOpinion, ask_official_checkers


def ask_official_checker(
    logs: Sequence[str | Path], round_name: str, timeout_s: float | None = None
) -> tuple[OfficialOpinion, ...]:
    """The compliance checker's opinions on `logs`, in order, by the rules of `round_name`."""
    questions = [CheckerQuery(checker="compliance", path=Path(log), round=round_name) for log in logs]
    return ask_official_checkers(questions, timeout_s)
