"""Commands of the pages run as they are written, with workers that follow a script: none is refused, none fails."""

import gzip
import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click_files import make_ads
from criteo_builder import make_text
from goldens import lay_data
from page_commands import PAGES, find_words, has_placeholder, read_groups, read_text
from round_builder import write_rounds
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers

from harness.config.catalog import load_entry
from harness.run_sets.dataset import ensure_dataset

JUDGED = (0, 3, 4, 5, 7)
"""Exit codes of a command that was not refused and did not fail, whatever came of scripted runs."""
NOT_RUN: Mapping[str, str] = {
    r"--python \.\./old": "it needs another environment: test_pair has one",
    r"^docker|torchrun|two-hosts": "it needs a container, or two machines",
    r"--implementation torchrec": "it needs torchrec, which may not be there: test_ranks runs it where it is",
    r" (calibrate|codesign|measure-(costs|system)|place|place-tasks|plan-devices|tiers|trace|usage) |zen3": (
        "it computes for minutes: tests of its extension run it in small"
    ),
    r"(run|sweep) \./mine\.toml|run dlrm_kaggle|id_map\.kind": "its data decides what runs do: no script has it",
    r"--system |\bA\b": "it needs another machine",
    r"data predict|package mine": "it needs what real runs left: tests of its own run it",
    r"order4": "it trains on another benchmark's data: test_init has it",
}
"""Why a command is parsed alone, by a pattern of it."""
OWN_FILES: Mapping[str, str] = {
    "dlrmbench init ./mine.toml --from-columns train.tsv.gz": "its files are columns without a header",
    "dlrmbench plan ./mine.toml": "its definition is the reader's",
    "dlrmbench data prepare dlrm_kaggle --train train.txt": "its definitions are the reader's",
}
"""Why a group is parsed alone, by how its first command begins."""
BEFORE: Mapping[str, tuple[str, ...]] = {
    "dlrmbench run --beside base": ("run dlrm_tiny --name base",),
    "dlrmbench versus base": ("run dlrm_tiny --name base",),
    "dlrmbench history": ("run dlrm_tiny --throughput 10",),
}
"""What a reader has done before a group of commands, by how its first one begins."""
GROUPS = [(page, group) for page in PAGES for group in read_groups(page)]


def is_run(command: str) -> bool:
    """Return whether a command is run here; a verb alone is a name in a sentence, but for `dlrmbench run`."""
    words = (find_words(command) or "").split()
    if len(words) < 2 and words != ["run"]:
        return False
    return not (has_placeholder(command) or any(re.search(pattern, command) for pattern in NOT_RUN))


def expand(words: list[str], folder: Path) -> list[str]:
    """Put the files in place of a pattern of them, as a shell does."""
    return [
        each
        for word in words
        for each in (sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else [word])
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's own files: clicks in columns and in Criteo's form, a round of MLPerf's results, own code."""
    folder = tmp_path_factory.mktemp("files")
    clicks, text = make_ads(3000), make_text(3000)
    clicks.to_csv(folder / "clicks.csv", index=False)
    (folder / "train.txt").write_bytes(text)
    (folder / "train.tsv").write_bytes(text)
    for name in ("day_0.gz", "day_1.gz", "test.tsv.gz", "train.tsv.gz"):
        (folder / name).write_bytes(gzip.compress(text))
    write_rounds(folder, num_others=2)
    (code,) = re.findall(r"```python\n# small_start.py\n(.*?)```", read_text("README.md"), flags=re.DOTALL)
    (folder / "small_start.py").write_text(code)
    return folder


@pytest.fixture(scope="module")
def generate(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Generate what the benchmarks that commands name train on, once for all groups."""
    root = tmp_path_factory.mktemp("generated") / "data"
    shutil.copytree(data_root, root, symlinks=True)
    known = re.compile(r"\b(?:(?:dlrm|dlrm_dcnv2|wukong|dlrmv4|d2nn)_small|dlrm_tiny|click_log_twins)\b")

    def make(commands: str) -> Path:
        for name in {*known.findall(commands)} or {"dlrm_small"}:
            ensure_dataset(load_entry(name).workload.data, root, num_threads=1)
        return root

    return make


def test_what_is_said_of_commands_is_of_some_that_a_page_shows() -> None:
    for pattern in NOT_RUN:
        assert any(re.search(pattern, command) for _, group in GROUPS for command in group), pattern
    for begin in (*BEFORE, *OWN_FILES):
        assert any(group[0].startswith(begin) for _, group in GROUPS), begin


@pytest.mark.slow
@pytest.mark.parametrize(("page", "group"), [pytest.param(*each, id=f"{each[0]}: {each[1][0]}") for each in GROUPS])
def test_commands_run_as_they_are_written(
    page: str, group: tuple[str, ...], files: Path, generate: Callable[[str], Path], tmp_path: Path
) -> None:
    if not any(map(is_run, group)) or group[0].startswith(tuple(OWN_FILES)):
        pytest.skip("nothing of it is run here")
    before = next((words for begin, words in BEFORE.items() if group[0].startswith(begin)), ())
    folder = lay_data(generate(" ".join((*before, *group))), tmp_path / "here")
    shutil.copytree(files, folder, dirs_exist_ok=True)
    moment = Moment()
    for command in (*(f"dlrmbench {words}" for words in before), *group):
        if not is_run(command):
            continue
        moment.passed_s += 3600
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that a verb imports
            words = expand(shlex.split(find_words(command) or ""), folder)
            ended = run_scripted_command(words, folder, ScriptedWorkers(moment))
        assert ended.code in JUDGED, f"{command}: exit code {ended.code}: {ended.err[-300:]}"
