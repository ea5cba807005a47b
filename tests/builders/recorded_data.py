"""A set whose record says where its data is, to be said otherwise."""

import json
from pathlib import Path

from scripted_commands import Ended, run_scripted_command
from scripted_workers import Moment, ScriptedWorkers


def call(place: Path, words: str) -> Ended:
    return run_scripted_command(words.split(), place, ScriptedWorkers(Moment()))


def base_in(place: Path, folder: Path) -> Path:
    """The set, whose record says that its data is in `folder`."""
    (base,) = (path for path in (place / "results").iterdir() if not path.is_symlink())
    path = base / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["dataset"]["dir"] = str(folder)
    path.write_text(json.dumps(content))
    return base
