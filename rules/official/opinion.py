"""Ask MLPerf's official checkers for a second opinion on logs and submissions, in one confined process of their own.

The checkers cannot be trusted with hostile input: they evaluate strings from YAML as code, write files beside their
input, and delete files. So they run on copies in a temporary folder, confined to that folder (worker.py), with a
clean environment and limits on memory, time and file size. Their verdict or crash is reported beside the verdict of
this harness and does not change it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, get_args

from rules.logs.text import printable
from rules.official.copies import Copies, NotCopiedError, num_links
from rules.official.process import Answer, run_worker
from rules.temporary_folder import temporary_folder

TIMEOUT_S = 120.0
TIMEOUT_PER_QUESTION_S = 1.0
WORKER = Path(__file__).with_name("worker.py")
_MESSAGE_CHARS = 400
CheckerName = Literal["compliance", "seed", "rcp", "system", "package", "repo"]
OpinionOutcome = Literal["valid", "invalid", "crashed", "timeout", "not asked"]
OnProgress = Callable[[int, int], None]
"""Callback that is called with the number of finished questions to official checkers (or judged logs), and the number
of all of them."""
_TOOLS: dict[CheckerName, str] = {
    "compliance": "compliance_checker",
    "seed": "package_checker.seed_checker",
    "rcp": "rcp_checker",
    "system": "system_desc_checker",
    "package": "package_checker",
    "repo": "repo_checker",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OfficialOpinion:
    """Opinion of one official checker on a log, set, description or submission: its verdict, its crash, or the reason
    why it was not asked.

    `subject` is the path that the checker was asked about. `factor` is the normalisation factor that the checker of
    reference convergence points (RCP) found. It is None if that checker found none, and for all other checkers.
    """

    checker: CheckerName
    tool: str
    ruleset: str
    subject: str
    outcome: OpinionOutcome
    messages: tuple[str, ...] = ()
    factor: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckerQuery:
    """Question to one official checker, about a log (checker `compliance`), a result directory (`seed`, `rcp`), a
    system description (`system`) or an organisation's submission (`package`, `repo`).

    `logs` are the files of a result directory. `round` is the name of an MLPerf round, such as "5.1". `without` are
    directories and files of a submission that are hidden from the package checker.
    """

    checker: CheckerName
    path: Path
    round: str
    logs: tuple[Path, ...] = ()
    without: tuple[Path, ...] = ()


def ask_official_checkers(
    questions: Sequence[CheckerQuery],
    timeout_s: float | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[OfficialOpinion, ...]:
    """Return the official checkers' opinions in the order of the questions, all from one process. Never raises
    because of the content of the files asked about.

    `timeout_s` bounds the seconds for all questions; by default it is two minutes, or a second per question where
    that is more. `on_progress` is called with the number of answered questions and of all questions.
    """
    if not questions:
        return ()
    if _installed() is None:
        return tuple(
            _opinion(question, Answer("not asked", ("mlperf-logging is not installed",))) for question in questions
        )
    try:
        return _ask(questions, timeout_s, on_progress)
    except OSError as error:  # no space left for the folder of copies, or no permission to write
        reason = f"there is no folder for its copies: {error.strerror or error}"
        return tuple(_opinion(question, Answer("not asked", (reason,))) for question in questions)


def _ask(
    questions: Sequence[CheckerQuery], timeout_s: float | None, on_progress: OnProgress | None
) -> tuple[OfficialOpinion, ...]:
    """Copy the files that the questions are about, and ask the official checkers about the copies. Raises OSError
    where no folder for the copies can be made."""
    limit_s = max(TIMEOUT_S, TIMEOUT_PER_QUESTION_S * len(questions)) if timeout_s is None else timeout_s
    with temporary_folder("official") as folder:
        copies = Copies(folder)
        answers: dict[int, Answer] = {}
        jobs: list[dict[str, Any]] = []
        # Folders first, so that the logs in them are copied once.
        for index in sorted(range(len(questions)), key=lambda index: not questions[index].logs):
            question = questions[index]
            try:
                path = _copy(question, copies)
            except NotCopiedError as error:
                answers[index] = Answer("not asked", (str(error),))
                continue
            except OSError as error:  # for example, no space left
                answers[index] = Answer("not asked", (f"it could not be copied: {error.strerror}",))
                continue
            jobs.append({"id": index, "checker": question.checker, "path": path, "ruleset": f"{question.round}.0"})
        jobs.sort(key=lambda job: int(job["id"]))
        numbers = count(len(answers) + 1)

        def on_answer() -> None:
            if on_progress is not None:
                on_progress(next(numbers), len(questions))

        if jobs:
            answers |= run_worker(WORKER, jobs, str(folder), limit_s, on_answer)
        inside = {job["id"]: str(job["path"]) for job in jobs}
    return tuple(_opinion(question, answers[index], inside.get(index)) for index, question in enumerate(questions))


def _installed() -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # it imports the email package

    try:
        return version("mlperf-logging")
    except PackageNotFoundError:
        return None


def _copy(question: CheckerQuery, copies: Copies) -> str:
    if question.checker in ("compliance", "system"):
        return copies.log(question.path)
    if question.checker in ("seed", "rcp"):
        return copies.result_set(question.logs)
    if question.checker == "package":
        return copies.submission(question.path, question.without)
    return copies.outline(question.path)


def _opinion(question: CheckerQuery, answer: Answer, inside: str | None = None) -> OfficialOpinion:
    messages = [_shorten(message, inside) for message in answer.messages]
    if question.checker in ("package", "repo") and inside is not None and (links := num_links(question.path)):
        messages.append(f"{links} links or special files were not shown to it")
    outcome: OpinionOutcome = next((name for name in get_args(OpinionOutcome) if name == answer.outcome), "crashed")
    return OfficialOpinion(
        checker=question.checker,
        tool=f"mlperf_logging {_TOOLS[question.checker]} {_installed() or 'missing'}",
        ruleset=f"{question.round}.0",
        subject=printable(str(question.path)),
        outcome=outcome,
        messages=tuple(messages),
        factor=answer.factor,
    )


def _shorten(message: str, inside: str | None) -> str:
    """Return an official checker's message without the dump of the checker's whole state, and without the path of the
    copied file. The test that failed is kept at the end, however long the quoted line before it is."""
    quoted, _, test = message.split("\ncurrent context")[0].partition("\nfailed test: ")
    end = " ".join(f" failed test: {test}".split()) if test else ""
    text = " ".join(quoted.split())
    if inside is not None:
        text = text.replace(f"{inside}/", "").replace(inside, "the log" if inside.endswith(".txt") else "the copy")
    return printable(f"{text[: max(0, _MESSAGE_CHARS - 1 - len(end))]} {end}".rstrip())[:_MESSAGE_CHARS]
