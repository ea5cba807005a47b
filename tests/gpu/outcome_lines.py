"""A plugin of pytest that writes which tests were collected, then what became of each as soon as it has ended."""

import json
import os
from pathlib import Path
from typing import Any

FILE_VARIABLE = "GPU_TEST_OUTCOMES"


def pytest_collection_finish(session: Any) -> None:
    _append({"collected": [item.name for item in session.items]})


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        name = report.nodeid.rpartition("::")[2]
        _append({"name": name, "outcome": report.outcome, "words": _words(report)})


def _words(report: Any) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr or "passed")[:2000]


def _append(line: dict[str, Any]) -> None:
    with Path(os.environ[FILE_VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
