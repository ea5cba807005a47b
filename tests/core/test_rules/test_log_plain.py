"""Plain records are read by a short way: it says what the careful way says, whatever the line."""

import json
from pathlib import Path

from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_builder import parse_lines

from rules.logs.log import RunLog, read_log

GOOD = (
    '{"namespace": "", "time_ms": 5, "event_type": "POINT_IN_TIME", "key": "seed", "value": 7, "metadata": {"a": 1}}'
)
ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "a:b", "\\", "é", "{", "["])
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab:"), inner, max_size=2)
)
FIELDS = ("namespace", "time_ms", "event_type", "key", "value", "metadata")


@st.composite
def records(draw: st.DrawFn) -> str:
    """JSON text of a record with fields that are changed, doubled, moved or left out."""
    pairs = list(json.loads(GOOD).items())
    for _ in range(draw(st.integers(0, 2))):
        pair = (draw(st.sampled_from(FIELDS)), draw(VALUES | st.sampled_from([value for _, value in pairs])))
        index = draw(st.integers(0, len(pairs)))
        pairs[index : index + draw(st.integers(0, 1))] = [pair]
    return (
        "{" + ", ".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=draw(st.booleans()))}" for k, v in pairs) + "}"
    )


def said(log: RunLog) -> str:
    lines = [
        (line.key, line.time_ms, line.event_type, line.value, line.metadata, line.namespace) for line in log.lines
    ]
    return repr((lines, [line.problems for line in log.lines], [rejected.reason for rejected in log.unparsed]))


@settings(max_examples=examples(150), deadline=None)
@given(records(), st.sampled_from(["", "", " ", "\r", "\x0c", " x", ":::MLLOG {}"]))
@example(GOOD.replace('"a": 1', '"a": 1, "a": 1'), "")
@example(GOOD.replace('"a": 1', '"a": 1, "a": 2'), "")
@example(GOOD.replace("7", '{"a": 1, "a": 2}'), "")
@example(GOOD.replace("7", '{"a": {"b": 1, "b": 2}}'), "")
@example(GOOD.replace('"value": 7', '"value": 7, "value": 8, "other": ":"'), "")
@example(GOOD.replace("7", "[" * 20 + "]" * 20), "")
@example(GOOD.replace("7", '{"a": ' * 20 + "{}" + "}" * 20), "")
@example(GOOD.replace("7", '"\\ud800"'), "")
@example(GOOD.replace("7", '"\\":"'), "")
@example(GOOD.replace(", ", ",\r"), "")
@example(GOOD.replace('"a": 1', '"a" : 1, "b":2'), "")
def test_plain_and_careful_reading_agree(record: str, behind: str) -> None:
    """A tab instead of the space before a record makes no difference but that the record is read the careful way."""
    plain, careful = (parse_lines(f":::MLLOG{space}{record}{behind}\n") for space in (" ", "\t"))
    assert said(plain) == said(careful)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(records() | st.just(GOOD), min_size=1, max_size=4),
    st.sampled_from(["\n", "\n\n", ":::MLLOG x\n", " \n"]),
)
@example([GOOD, GOOD.replace("7", '":::MLLOG {}"')], "\n")
@example([GOOD.replace(', "metadata"', ""), GOOD.replace('"a": 1', '"a": 1, "metadata": {}')], "\n")
@example([GOOD.replace('"namespace": "", ', ""), GOOD.replace("7", '7, "value": 7')], "\n")
@example([GOOD[:-1], "}"], "\n")
def test_a_log_is_read_as_its_lines_are(lines: list[str], between: str) -> None:
    """A first line of noise makes no difference but that the log is read line by line."""
    text = "".join(f":::MLLOG {line}{between}" for line in lines)
    whole, by_line = parse_lines(text), parse_lines(f"noise\n{text}")
    assert said(whole) == said(by_line)
    assert [line.line_num + 1 for line in whole.lines] == [line.line_num for line in by_line.lines]


def test_a_long_log_is_read_as_a_short_one(tmp_path: Path) -> None:
    """Logs beyond the size that is read at once say the same of the same lines."""
    text = f":::MLLOG {GOOD}\nnoise\n0: :::MLLOG {GOOD}\n:::MLLOG {GOOD[:50]}\n"
    for num_copies in (1, 2000):
        path = tmp_path / f"{num_copies}.txt"
        path.write_text(text * num_copies)
        log, whole = read_log(path), parse_lines(text * num_copies, str(path))
        assert (log.lines, log.sha256, log.num_bytes) == (whole.lines, whole.sha256, whole.num_bytes)
        assert [line.line_num for line in log.lines] == [4 * i + n for i in range(num_copies) for n in (1, 3)]
        assert [rejected.line_num for rejected in log.unparsed] == [4 * i + 4 for i in range(min(num_copies, 100))]
