"""Inputs of every kind that a command reads, each mutated from a seed: bytes, lines, values, cuts and depth.

FAMILIES has a sound input of each kind and the command line that reads it, in the working folder of
`hostile_folders`; extensions have theirs in their seams.py. `Random(f"{family} {seed}")` makes a case again.
"""

import bz2
import gzip
import io
import json
import lzma
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pandas as pd
import pyarrow as pa
from goldens import lay_data
from hostile_folders import run, write_inputs
from hostile_trees import CONTENTS
from places import ROOT
from pyarrow import parquet
from seams import find_seams

NUM_CASES = 130
"""Of most families in `make test-all`."""
_SET = "run dlrm_tiny --threads 1 -n 1 -q --seed 1"
_SETS = "results/*/extra/**/*.*"
_CONFIGURATION = '[train]\nopt_base_learning_rate = 0.05\n[runtime]\nthreads = 1\n[submission]\nsubmitter = "me"\n'


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of input: what makes it sound, where it then is, and the command lines that read it, in turns."""

    words: tuple[str, ...]
    before: tuple[str, ...] = ()
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    inputs: str | None = None
    """A pattern of what is mutated; the files, where it is not said."""
    share: int = 1
    """How many times as many cases as of most families."""


def own_files() -> dict[str, bytes]:
    """Rows of clicks in every form that `init` and `data prepare` read."""
    frame = pd.read_csv(ROOT / "reference_models" / "examples" / "clicks.csv", dtype=str).head(400)
    rows = frame.to_dict("records")
    text = frame.to_csv(index=False).encode()
    archive, table, lists = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("clicks.csv", text)
    typed = pa.Table.from_pandas(frame.astype({"click": int, "hour": int, "bid": float}), preserve_index=False)
    parquet.write_table(typed, table)
    parquet.write_table(typed.append_column("tags", pa.array([["a", "b"], []] * 200)), lists)
    return {
        "clicks.csv": text,
        "clicks.tsv": frame.to_csv(index=False, sep="\t").encode(),
        "clicks.dat": frame.to_csv(index=False, sep="\x02").replace("\x02", "::").encode(),
        "clicks.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows).encode(),
        "lists.jsonl": "".join(f"{json.dumps({**row, 'tags': [1, 'b'], 'n': {}})}\n" for row in rows).encode(),
        "clicks.csv.gz": gzip.compress(text, mtime=0),
        "clicks.csv.bz2": bz2.compress(text),
        "clicks.csv.xz": lzma.compress(text),
        "clicks.zip": archive.getvalue(),
        "clicks.parquet": table.getvalue(),
        "lists.parquet": lists.getvalue(),
    }


def _own(name: str, content: bytes) -> Family:
    return Family(
        files={name: content},
        words=(f"init begun.toml --from-columns {name}", f"data prepare clicks.toml --train {name} -q"),
    )


CORE_FAMILIES: Mapping[str, Family] = {
    **{f"own {name}": _own(name, content) for name, content in own_files().items()},
    "configuration": Family(
        files={"c.toml": _CONFIGURATION},
        words=("run dlrm_tiny -n 1 -q -c c.toml", "plan dlrm_tiny --no-measure -c c.toml"),
    ),
    "definition": Family(
        inputs="other.toml", words=("plan other.toml --no-measure --threads 1", "show other.toml"), share=2
    ),
    "set": Family(
        before=(_SET,), inputs=_SETS, share=4,
        words=(
            "resume results/latest -n 2 -q", "check results --no-second-opinion", "score results",
            "report results --no-second-opinion", "profile dlrm_tiny --threads 1 -q -o results/latest",
            "run --beside results/latest --threads 1 -n 1 -q --seed 9", "diff results/latest results/latest",
        ),
    ),
    "measurement": Family(
        before=("run dlrm_tiny --threads 1 --throughput 10 -q --seed 5",), inputs=_SETS, share=2,
        words=("resume results/latest -n 6 -q", "report results --no-second-opinion", "check results"),
    ),
    "sweep": Family(
        before=("sweep dlrm_tiny --threads 1 -n 1 -q --axis train.opt_base_learning_rate=0.03,0.06",),
        inputs="results/*/**/*.json", share=2,
        words=("resume results/latest -n 2 -q", "report results/latest --no-second-opinion"),
    ),
    "pair": Family(
        before=(_SET, "run --beside results/latest --threads 1 -n 1 -q --seed 9 --name both"),
        inputs="results/*both*/**/*.json", words=("resume both -n 2 -q", "report both --no-second-opinion"),
    ),
    "choices": Family(
        before=("run dlrm_tiny -n 1 -q",), inputs="data/*/choices/*.json", words=("run dlrm_tiny -n 1 -q",)
    ),
    "dataset": Family(
        inputs="data/*/manifest.json", words=("run dlrm_tiny -n 1 -q --threads 1", "data generate dlrm_tiny")
    ),
    "export": Family(
        before=(_SET, "report results --no-second-opinion --format json -o all.json"), inputs="all.json",
        words=("report all.json --format csv", "diff all.json all.json"),
    ),
}  # fmt: skip


def all_families() -> dict[str, Family]:
    """Those of extensions are functions that give the members of one."""
    return {**CORE_FAMILIES, **{name: Family(**make()) for name, make in find_seams("FAMILIES").items()}}


def make_base(family: Family, data_root: Path, folder: Path) -> Path:
    """Make the working folder with the sound input; the dataset's manifest is a file of it."""
    base = lay_data(data_root, folder)
    for manifest in base.glob("data/*/manifest.json"):
        content = manifest.read_bytes()
        manifest.unlink()
        manifest.write_bytes(content)
    write_inputs(base)
    for name, content in family.files.items():
        (base / name).write_bytes(content.encode() if isinstance(content, str) else content)
    for words in family.before:
        ended = run(words, base, 0.0)
        assert ended.code in (0, 3), ended.err
    return base


def make_case(family: Family, base: Path, random: Random, here: Path) -> tuple[list[str], list[str]]:
    """Copy the working folder and mutate its input in one to four places: the command line, and what was done."""
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(base, here, symlinks=True)
    patterns = [*family.files] if family.inputs is None else [family.inputs]
    found = sorted({path for pattern in patterns for path in here.glob(pattern) if path.is_file()})
    paths = [path for path in found if not path.is_symlink() and path.suffix not in (".html", ".npy")]
    done = []
    for _ in range(random.choice((1, 1, 2, 4))):
        path = random.choice(paths)
        kind = "values" if path.suffix in (".toml", ".json") and random.random() < 0.6 else random.choice([*CONTENTS])
        CONTENTS[kind](random, path)
        done.append(f"{kind} {path.relative_to(here)}")
    return random.choice(family.words).split(), done
