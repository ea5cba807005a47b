"""A process in which LoadGen asks a system that knows its logits every query once: its accuracy log goes to a folder.

    python accuracy_process.py FOLDER JSON

JSON has the keys of [serve], and `items`: lists of (logit, label) of each query.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from harness.extensions.serving.accuracy import write_accuracy_log
from harness.extensions.serving.bench import make_workers
from harness.extensions.serving.config import ServeConfig
from harness.foundation.errors import end_process


def write(folder: Path, asked: dict[str, Any]) -> None:
    items = [np.array(of_query, dtype=np.float32).reshape(-1, 2) for of_query in asked.pop("items")]
    serve = ServeConfig(**asked)

    def answer(parts: Any) -> Any:
        return np.concatenate([items[part.place][part.start : part.stop, 0] for part in parts])

    write_accuracy_log(answer, [of_query[:, 1] for of_query in items], serve, make_workers(serve), folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]), json.loads(sys.argv[2]))
    end_process(0)
