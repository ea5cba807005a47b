"""Mutated logs, system descriptions and trees from a seed: the same input for the same seed, whatever the machine."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from log_builder import Record, make_records, make_runs, make_system_desc, to_text, write_set

from rules.benchmarks.loader import load_benchmark
from rules.logs import keys

NAMES = ("dlrm_tiny", "dlrm_dcnv2", "dlrm", "dlrmv4")
_METADATA = ("epoch_num", "samples_count", "status", "reason", "method", "first_epoch_num", "epoch_count", "tensor")
_FIELDS = ("namespace", "time_ms", "event_type", "key", "value", "metadata")
_NUMBERS = [
    0, -0.0, 1, -1, 2, 0.5, 0.75, 0.80275, 1e-300, 5e-324, 1e300, -1e300, 2**31, 2**53, 2**63, -(2**63), 10**30, 1e15,
    float("nan"), float("inf"), float("-inf"), 1_790_000_000_000, 4195197692, 89137319, 65536,
]  # fmt: skip
_VALUES: list[Any] = [
    *_NUMBERS, None, True, False, "", "x", "0", "closed", "open", "aborted", "success", "dlrm_dcnv2", "dlrmv4",
    "\x1b[31mred\x1b[0m", "\x00", "\u202e", "\U0001f600", "../../etc/passwd", "{0.__class__}", "%s%n", "a" * 300, [],
    {}, [[[[]]]], {"a": {"b": []}}, [1, 2], {"throughput": 0}, {"throughput": 1e300}, {"status": "success"}, 10**400,
]  # fmt: skip
_SNIPPETS = [
    b":::MLLOG ", b":::MLLOG {", b":::MLLOG", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\r\n", b"\0", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"[" * 200,
    b'{"a":' * 50, b"null", b"true", b"\x1b]0;title\x07", b"\x85", b"\x0c", "\u2028".encode(), b"0: ", b"[3] ",
    b"9" * 5000,
]  # fmt: skip


@cache
def base_records(name: str, num_evals: int) -> tuple[Record, ...]:
    """A short compliant log: few evaluations, short metadata."""
    records = make_records(load_benchmark(name), num_evals=num_evals, ours=name == "dlrm_tiny")
    for record in records:
        del record["metadata"]["file"], record["metadata"]["lineno"]
    return tuple(records)


@cache
def base_lines(name: str, num_evals: int) -> tuple[str, ...]:
    return tuple(to_text(base_records(name, num_evals)).splitlines())


def mutate_values(random: Random) -> bytes:
    """A log some of whose records have other fields, values or metadata."""
    name, num_evals = random.choice(NAMES), random.choice((1, 2, 3))
    records, lines = base_records(name, num_evals), list(base_lines(name, num_evals))
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        index = random.randrange(len(records))
        record = {**records[index], "metadata": dict(records[index]["metadata"])}
        value = (
            random.choice(_VALUES) if random.random() < 0.8 else random.uniform(-2, 2) * 10 ** random.randint(-9, 9)
        )
        place = random.random()
        if place < 0.4:
            record["value"] = value
        elif place < 0.7:
            record["metadata"][random.choice(_METADATA)] = value
        elif place < 0.8:
            record.pop(random.choice(_FIELDS))
        elif place < 0.9:
            record["key"] = random.choice(records)["key"]
        else:
            record[random.choice(_FIELDS)] = value
        lines[index] = f":::MLLOG {json.dumps(record)}"
    return ("\n".join(lines) + "\n").encode()


def mutate_lines(random: Random) -> bytes:
    """A log whose lines are missing, doubled, moved, glued, cut, prefixed or drowned."""
    lines = list(base_lines(random.choice(NAMES), random.choice((1, 2))))
    end = random.choice(("\n", "\n", "\r\n", "\r"))
    for _ in range(random.choice((1, 2, 4))):
        i, j = random.randrange(len(lines)), random.randrange(len(lines))
        what = random.randrange(8)
        if what == 0 and len(lines) > 1:
            del lines[i]
        elif what == 1:
            lines.insert(j, lines[i])
        elif what == 2:
            lines[i], lines[j] = lines[j], lines[i]
        elif what == 3:
            lines[i] += random.choice(("", " ")) + lines[j]
        elif what == 4:
            lines[i] = lines[i][: random.randrange(len(lines[i]) + 1)]
        elif what == 5:
            lines = [f"{random.choice(('', '0: ', '[3] ', ' 12: ', '+ '))}{line}" for line in lines]
        elif what == 6:
            lines.insert(i, random.choice(("", "noise", ":::SYSJSON {}", "\x1b[2J", "é", ":::MLLOG", "x" * 5000)))
        else:
            lines = lines[i:] + lines[:i]
    return (end.join(lines) + random.choice(("", end))).encode("utf-8", "surrogatepass")


def mutate_bytes(random: Random) -> bytes:
    """A log with damaged bytes, or bytes that never were a log."""
    if random.random() < 0.05:
        return random.randbytes(random.randrange(200))
    name = random.choice(NAMES)
    lines = base_lines(name, 1)
    first = random.randrange(len(lines))
    data = bytearray("\n".join(lines[first : first + random.randrange(1, len(lines))]), "utf-8")
    for _ in range(random.choice((1, 2, 4, 16))):
        i = random.randrange(len(data) + 1)
        what = random.randrange(6)
        if what == 0 and i < len(data):
            data[i] = random.randrange(256)
        elif what == 1:
            data[i:i] = random.choice(_SNIPPETS)
        elif what == 2:
            del data[i : i + random.randrange(40)]
        elif what == 3:
            data[i:i] = data[i : i + random.randrange(60)]
        elif what == 4 and i < len(data):
            data[i] ^= 1 << random.randrange(8)
        else:
            data[i : i + 4] = random.randbytes(random.randrange(6))
    return bytes(data) if random.random() < 0.97 else bytes(data).decode("latin-1").encode("utf-16")


def mutate_system(random: Random) -> bytes:
    """A system description with other values, other keys or damaged bytes."""
    desc: dict[str, Any] = dict(make_system_desc())
    for _ in range(random.choice((1, 2, 5))):
        field = random.choice(list(desc))
        if random.random() < 0.2:
            del desc[field]
        else:
            desc[field] = random.choice(_VALUES)
    data = bytearray(json.dumps(random.choice((desc, desc, desc, [desc], None))), "utf-8")
    for _ in range(random.choice((0, 0, 1, 3))):
        i = random.randrange(len(data) + 1)
        data[i : i + random.randrange(8)] = random.choice(_SNIPPETS)
    return bytes(data)


LOGS: dict[str, Callable[[Random], bytes]] = {
    "values": mutate_values,
    "lines": mutate_lines,
    "bytes": mutate_bytes,
}


@cache
def _runs(name: str) -> tuple[tuple[Record, ...], ...]:
    return tuple(map(tuple, make_runs(load_benchmark(name), 3, ours=name == "dlrm_tiny", num_evals=2)))


def write_tree(random: Random, root: Path) -> None:
    """A submission of a few logs with some of its files replaced, renamed, emptied, linked or made folders."""
    name = random.choice(NAMES)
    write_set(root, load_benchmark(name), _runs(name), ours=name == "dlrm_tiny")
    for _ in range(random.choice((1, 2, 4))):
        paths = sorted(root.rglob("*"))
        path = random.choice(paths)
        what = random.randrange(8)
        if what == 0 and path.is_file():
            path.write_bytes(LOGS[random.choice(list(LOGS))](random))
        elif what == 1 and path.is_file():
            path.write_bytes(mutate_system(random))
        elif what == 2 and not path.is_symlink():
            target = path.with_name(random.choice(("result_1.txt", "result_x.txt", "x y", "systems2", "é", "-n")))
            if not target.exists():
                path.rename(target)
        elif what == 3 and path.is_file():
            path.unlink()
        elif what == 4 and path.is_dir():
            (path / random.choice(("result_7.txt", "more", ".hidden"))).mkdir(exist_ok=True)
        elif what == 5 and path.is_dir() and not (path / "result_link.txt").is_symlink():
            leads_to = random.choice(("/etc/passwd", "/dev/zero", "nowhere", "result_0.txt", ".", ".."))
            (path / "result_link.txt").symlink_to(leads_to)
        elif what == 6 and path.is_file():
            path.write_bytes(b"")
        elif path.is_dir():
            (path / random.choice(("scaling.json", "README.md", "power", "result_99.txt"))).write_bytes(
                random.choice((b"", b"{}", random.randbytes(50)))
            )


def keys_of(name: str) -> list[str]:
    """The keys of a benchmark's log, for fuzzers that take a dictionary of words."""
    return sorted({record["key"] for record in base_records(name, 1)} | {keys.EPOCH_START, keys.EPOCH_STOP})
