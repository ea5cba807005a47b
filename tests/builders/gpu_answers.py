"""The command line as steps of `make gpu` see it, with answers that are given."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from setting import Setting


def plant_answers(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
    """Let the command line answer as said: by verb, an exit code, stderr and stdout, and a file to be there."""

    def dlrmbench(setting: Setting, verb: str, *arguments: object, **environ: str) -> Any:
        answer = {"exit_code": 0, "stderr": "", "stdout": "", "files": {}, **answers[verb]}
        for name, content in answer["files"].items():
            path = setting.scratch / "results" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        return SimpleNamespace(returncode=answer["exit_code"], stderr=answer["stderr"], stdout=answer["stdout"])

    monkeypatch.setattr(Setting, "dlrmbench", dlrmbench)
