"""The official checkers are confined: whatever they are shown, they change and read nothing of ours."""

import errno
import hashlib
import json
import os
import runpy
import selectors
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from log_builder import make_records, make_runs, make_system_desc, to_text, with_record, write_log, write_set
from official_opinion import ask_official_checker
from waiting import HANG_S, processes_of, wait_until

from rules.benchmarks.loader import load_benchmark
from rules.official import opinion as official
from rules.official import process as official_process
from rules.official.opinion import CheckerQuery, ask_official_checkers

DCNV2 = load_benchmark("dlrm_dcnv2")
GOOD = make_records(DCNV2, num_evals=3, ours=False)


def snapshot(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(root.rglob("*")):
        kind = "link" if path.is_symlink() else "file" if path.is_file() else "other"
        found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if kind == "file" else kind
    return found


FORBIDDEN = {
    "write": "open(OUT + '/new', 'w')",
    "append": "open(OUT + '/there', 'a')",
    "write below by ..": "open('../outside/new', 'w')",
    "write by a link": "open('way/new', 'w')",
    "write with os.open": "os.open(OUT + '/new', os.O_WRONLY | os.O_CREAT)",
    "delete": "os.remove(OUT + '/there')",
    "delete in the root folder": "os.remove('/scaling.json')",
    "move in": "os.rename(OUT + '/there', 'here')",
    "move out": "os.rename('inside', OUT + '/new')",
    "link": "os.link(OUT + '/there', 'here')",
    "link out": "os.symlink(OUT, 'here')",
    "make a folder": "os.mkdir(OUT + '/new')",
    "remove a tree": "shutil.rmtree(OUT)",
    "change rights": "os.chmod(OUT + '/there', 0)",
    "truncate": "os.truncate(OUT + '/there', 0)",
    "read": "open(OUT + '/there')",
    "read by a link": "open('way/there')",
    "list": "os.listdir(OUT)",
    "list with a pattern": "os.scandir(OUT)",
    "run": "subprocess.run(['true'])",
    "shell": "os.system('true')",
    "fork": "os.fork()",
    "become": "os.execv('/bin/true', ['true'])",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "connect": "socket.create_connection(('127.0.0.1', 9))",
    "go elsewhere": "os.chdir(OUT)",
    "kill": "os.kill(os.getppid(), 0)",
    "load a library": "ctypes.CDLL(None)",
    "open a database": "sqlite3.connect(OUT + '/new')",
    "make a pipe": "os.mkfifo(OUT + '/new')",
    "run below subprocess": "_posixsubprocess.fork_exec()",
    "kill by a descriptor": "signal.pidfd_send_signal(0, 0)",
    "import": "import readline",
    "import a program's runner": "import pty",
}


def test_confined_code_can_do_nothing_outside_its_folder(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (outside / "there").write_text("mine")
    (home / "inside").write_text("copy")
    (home / "way").symlink_to(outside)
    before = snapshot(outside)
    code = textwrap.dedent("""
        import _posixsubprocess, ctypes, json, os, runpy, shutil, signal, socket, sqlite3, subprocess, sys
        OUT = sys.argv[2]
        runpy.run_path(sys.argv[1])["confine"](os.getcwd())
        said = {}
        for name, line in json.loads(sys.argv[3]).items():
            try:
                exec(line)
                said[name] = "done"
            except (PermissionError, ImportError) as error:
                said[name] = "refused" if "outside" in str(error) or "not allowed" in str(error) else str(error)
            except AttributeError as error:
                said[name] = "refused" if "has no attribute" in str(error) else str(error)
            except Exception as error:
                said[name] = repr(error)
        open("new", "w").write("x")
        os.remove("new")
        os.listdir(".")
        open(os.__file__).read()
        print(json.dumps(said))
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(official.WORKER), str(outside), json.dumps(FORBIDDEN)],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == dict.fromkeys(FORBIDDEN, "refused")
    assert snapshot(outside) == before


@pytest.mark.slow
def test_hostile_tree_is_judged_without_harm(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(to_text(make_records(DCNV2, organization="SECRET", ours=False)))
    (outside / "system.json").write_text(json.dumps(make_system_desc(system_name="SECRET", cooling="x")))
    root = tmp_path / "org"
    folder = write_set(root, DCNV2, make_runs(DCNV2, 2, ours=False), ours=False)
    write_log(folder / "result_$(touch trap).txt", with_record(GOOD, "submission_benchmark", value="../../x"))
    write_log(folder / "result_;rm -rf *.txt", with_record(GOOD, "submission_division", value=f"/{outside}/evil"))
    write_log(folder / "result_\n\x1b[2J.txt", GOOD)
    (folder / "result_link.txt").symlink_to(outside / "secret.txt")
    (folder / "loop").symlink_to(root)
    (root / "results" / "away").symlink_to(outside)
    (root / "systems" / "away.json").symlink_to(outside / "system.json")
    os.mkfifo(folder / "result_pipe.txt")
    (root / "results" / "exam[p]le * ?").mkdir()
    before = snapshot(tmp_path)
    logs = sorted(path for path in folder.glob("result_*.txt") if path.name != "result_link.txt")
    questions = [CheckerQuery(checker="compliance", path=path, round="6.0") for path in logs]
    questions += [CheckerQuery(checker=name, path=root, round="6.0") for name in ("package", "repo")]
    questions += [
        CheckerQuery(checker=name, path=folder, round="6.0", logs=tuple(logs[:2])) for name in ("seed", "rcp")
    ]
    opinions = ask_official_checkers(questions)
    assert snapshot(tmp_path) == before
    text = " ".join(message for opinion in opinions for message in (opinion.subject, *opinion.messages))
    assert "SECRET" not in text and text.isprintable()
    by_name = {Path(opinion.subject).name: opinion for opinion in opinions}
    assert by_name["result_pipe.txt"].outcome == "not asked"
    assert by_name["result_$(touch trap).txt"].messages == (
        "the division or benchmark that a log names is no plain word",
    )
    package = next(opinion for opinion in opinions if opinion.checker == "package")
    assert package.outcome == "not asked" and package.messages[-1].endswith(
        "links or special files were not shown to it"
    )


def write_worker(folder: Path, body: str) -> Path:
    """A worker that answers as `body` does; it sees `job` and prints with `say`."""
    path = folder / "worker.py"
    path.write_text(
        "import json, os, sys, time\n"
        "request = json.loads(sys.stdin.read())\n"
        "def say(**said): print(json.dumps(said), flush=True)\n"
        "for job in request['jobs']:\n"
        "    say(started=job['id'])\n" + textwrap.indent(textwrap.dedent(body), "    ")
    )
    return path


ANSWER = "say(ended=job['id'], outcome='valid', messages=[], factor=None)\n"


def test_one_that_stalls_or_dies_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [write_log(tmp_path / f"{index}.txt", GOOD) for index in range(5)]
    stalled = tmp_path / "stalled"
    body = (
        f"if job['id'] == 1: open({str(stalled)!r}, 'x').close(); time.sleep({HANG_S})\n"
        "if job['id'] == 3: os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setattr(official, "WORKER", write_worker(tmp_path, body + ANSWER))

    class WaitsForTheStalled(selectors.DefaultSelector):
        """Time passes for the worker that stalls, and for no other, however slow it is."""

        def select(self, timeout: float | None = None) -> list[Any]:
            base, ready = super(), []
            while not (ready or stalled.exists()):
                ready = base.select(0.05)
            if not ready and not (ready := base.select(0)):
                stalled.unlink()
            return ready

    monkeypatch.setattr(selectors, "DefaultSelector", WaitsForTheStalled)
    monkeypatch.setattr(official_process, "ANSWER_TIMEOUT_S", HANG_S / 2)  # less than all of them have together
    opinions = ask_official_checker(logs, "6.0")
    assert [opinion.outcome for opinion in opinions] == ["valid", "timeout", "valid", "crashed", "valid"]
    assert "no answer within" in opinions[1].messages[0] and "SIGKILL" in opinions[3].messages[0]


def test_it_ends_with_the_process_that_asks(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    worker = (
        f"import os, runpy, time; runpy.run_path({str(official.WORKER)!r})['end_with_parent'](os.getppid())\n"
        f"open({str(ready)!r}, 'x').close(); time.sleep({HANG_S})"
    )
    asking = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    parent = subprocess.Popen([sys.executable, "-c", asking], start_new_session=True)
    wait_until(ready.exists, "the worker's start")
    assert len(processes_of(parent.pid)) == 2
    parent.kill()
    parent.wait()
    wait_until(lambda: not processes_of(parent.pid), "the worker's end")


@pytest.mark.parametrize("place", ["rules.temporary_folder.tempfile.mkdtemp", "rules.official.opinion.run_worker"])
def test_without_room_for_copies_it_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(place, refuse)
    (opinion,) = ask_official_checker([write_log(tmp_path / "0.txt", GOOD)], "6.0")
    assert opinion.outcome == "not asked"
    assert opinion.messages == ("there is no folder for its copies: No space left on device",)


def test_one_that_always_dies_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [write_log(tmp_path / f"{index}.txt", GOOD) for index in range(5)]
    monkeypatch.setattr(official, "WORKER", write_worker(tmp_path, "sys.exit('broken')\n"))
    monkeypatch.setattr(official_process, "MAX_WORKERS", 3)
    outcomes = [opinion.outcome for opinion in ask_official_checker(logs, "6.0")]
    assert outcomes == ["crashed"] * 3 + ["not asked"] * 2


def test_its_answers_are_taken_as_text_from_a_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "0.txt", GOOD)
    body = (
        "print('noise'); say(ended='x'); say(started='y'); print('[]')\n"
        "say(ended=job['id'], outcome='\\x1b[2Jvalid', messages=['\\x1b]0;x\\x07' * 1000], factor=None)\n"
    )
    monkeypatch.setattr(official, "WORKER", write_worker(tmp_path, body))
    (opinion,) = ask_official_checker([log], "6.0")
    assert opinion.outcome == "crashed"
    assert len(opinion.messages[0]) <= 400 and opinion.messages[0].isprintable()


def test_it_sees_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    body = (
        "say(ended=job['id'], outcome='valid', messages=[' '.join(sorted(os.environ)), os.getcwd()], factor=None)\n"
    )
    monkeypatch.setattr(official, "WORKER", write_worker(tmp_path, body))
    (opinion,) = ask_official_checker([write_log(tmp_path / "0.txt", GOOD)], "6.0")
    names = set(opinion.messages[0].split())
    assert "SECRET_TOKEN" not in names and "PYTHONPATH" not in names
    assert not Path(opinion.messages[1]).exists()


@pytest.mark.slow
def test_memory_is_limited_and_its_end_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hungry = tmp_path / "hungry.txt"
    line = ':::MLLOG {"time_ms": 1, "key": "k", "value": 1, "metadata": {}}\n'
    hungry.write_text(line * 100_000)
    good = write_log(tmp_path / "good.txt", GOOD)
    monkeypatch.setattr(official_process, "MEMORY_BYTES", 72 << 20)
    opinions = ask_official_checker([hungry, good], "6.0")
    assert opinions[0].outcome == "crashed" and "Memory" in opinions[0].messages[0]
    assert opinions[1].outcome == "valid"


def test_what_it_writes_is_limited(tmp_path: Path) -> None:
    code = (
        "import os, runpy, sys\nrunpy.run_path(sys.argv[1])['limit'](1 << 30, 10, 1000)\n"
        "large = os.open('large', os.O_CREAT | os.O_WRONLY)\n"
        "os.write(large, b'x' * 5000)\nos.write(large, b'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(official.WORKER)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stderr and (tmp_path / "large").stat().st_size == 1000


def test_what_is_too_large_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = tmp_path / "large.txt"
    large.touch()
    os.truncate(large, 65 << 20)
    (one,) = ask_official_checker([large], "6.0")
    assert one.outcome == "not asked" and "larger than" in one.messages[0]
    root = tmp_path / "org"
    write_set(root, DCNV2, make_runs(DCNV2, 2, ours=False), ours=False)
    monkeypatch.setattr("rules.official.copies.MAX_FILES", 2)
    questions = [CheckerQuery(checker=name, path=root, round="6.0") for name in ("package", "repo")]
    for opinion in ask_official_checkers(questions):
        assert opinion.outcome == "not asked" and "more than 2 files" in opinion.messages[0]


@pytest.mark.parametrize("large", ["result_0.txt", "result_1.txt"])
def test_a_set_with_a_large_log_is_not_copied_whoever_asks(
    large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rules.official.copies.MAX_LOG_BYTES", 100_000)
    logs = [write_log(tmp_path / f"result_{i}.txt", GOOD) for i in range(3)]
    with (tmp_path / large).open("ab") as file:
        file.write(b"noise\n" * 20_000)
    questions = [
        CheckerQuery(checker=name, path=tmp_path, round="6.0", logs=tuple(logs)) for name in ("seed", "rcp", "seed")
    ]
    opinions = ask_official_checkers([*questions, CheckerQuery(checker="compliance", path=logs[2], round="6.0")])
    assert [opinion.outcome for opinion in opinions] == ["not asked"] * 3 + ["valid"]
    assert all(f"{large} is larger than 100000 bytes" in opinion.messages[0] for opinion in opinions[:3])


def test_copies_are_gone_afterwards_also_when_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    log = write_log(tmp_path / "0.txt", GOOD)
    ask_official_checker([log], "6.0")
    assert list((tmp_path / "temporary").iterdir()) == []

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(official_process, "_listen", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ask_official_checker([log], "6.0")
    assert list((tmp_path / "temporary").iterdir()) == []


def loaded_worker() -> Any:
    return runpy.run_path(str(official.WORKER))


def test_a_log_is_parsed_once_and_every_checker_gets_a_copy_of_its_own(tmp_path: Path) -> None:
    log, parsed = tmp_path / "result_0.txt", []
    log.write_text("one\n")

    def parse(filename: str, ruleset: str) -> list[dict[str, str]]:
        parsed.append(ruleset)
        return [{"value": Path(filename).read_text(), "ruleset": ruleset}]

    parse_or_copy = loaded_worker()["parse_once"](parse)
    first = parse_or_copy(str(log), ruleset="5.1.0")
    first[0]["value"] = "changed by a checker"
    first.append({})
    assert parse_or_copy(str(log), "5.1.0") == [{"value": "one\n", "ruleset": "5.1.0"}]
    assert parse_or_copy(str(log), ruleset="5.0.0") == [{"value": "one\n", "ruleset": "5.0.0"}]
    assert parsed == ["5.1.0", "5.0.0"]


def test_of_parsed_logs_no_more_is_kept_than_the_bound(tmp_path: Path) -> None:
    worker, parsed = loaded_worker(), []
    worker["parse_once"].__globals__["KEPT_BYTES"] = 3_000
    logs = [tmp_path / f"result_{number}.txt" for number in range(4)]
    for log, size in zip(logs, (1_000, 1_000, 1_500, 4_000), strict=True):
        log.write_text("x" * size)

    def parse(filename: str, ruleset: str) -> str:
        parsed.append(Path(filename).name)
        return Path(filename).read_text()

    parse_or_copy = worker["parse_once"](parse)
    for number in (0, 1, 1, 2, 2, 1, 0, 3, 3):
        assert parse_or_copy(str(logs[number])) == logs[number].read_text()
    assert parsed == [f"result_{number}.txt" for number in (0, 1, 2, 0, 3, 3)]


def test_a_rule_file_is_read_once_as_their_loader_reads_it(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    text, reads = "- KEY:\n    NAME: seed\n    VALUE: 1.50\n    SHARED: no\n", []

    class Module:
        """As yaml, of which it counts the loads."""

        BaseLoader, SafeLoader = yaml.BaseLoader, yaml.SafeLoader

        @staticmethod
        def load(stream: str, Loader: Any) -> Any:  # noqa: N803
            reads.append(Loader)
            return yaml.load(stream, Loader=Loader)

    read_or_copy = loaded_worker()["read_once"](Module)
    path = tmp_path / "closed_x.yaml"
    path.write_text(text)
    for _ in range(2):
        with path.open() as file:
            read = read_or_copy(file, Loader=yaml.BaseLoader)
        assert read == [{"KEY": {"NAME": "seed", "VALUE": "1.50", "SHARED": "no"}}]
        read.clear()
    assert read_or_copy(text, yaml.SafeLoader) == [{"KEY": {"NAME": "seed", "VALUE": 1.5, "SHARED": False}}]
    assert reads == [yaml.BaseLoader, yaml.SafeLoader]
