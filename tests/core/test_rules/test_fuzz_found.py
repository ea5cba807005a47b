"""Inputs that fuzzing found, and what was wrong with each; they stay judged."""

import json
from pathlib import Path

import pytest
from fuzz_oracles import JUDGED_BY, bounded, judge_log_bytes, judge_log_file
from tiers import quick_first

RECORD = {"namespace": "", "time_ms": 1790000000506, "event_type": "POINT_IN_TIME", "key": "seed", "value": 1}
FOUND = {
    "a byte order mark in a key went into a finding's message unescaped": [
        {**RECORD, "key": "opt\ufeff_adam_beta_2", "metadata": {}}
    ],
    "so did an escape sequence": [{**RECORD, "key": "\x1b]0;title\x07seed"}],
    "and one in the key of a record out of order": [
        {**RECORD, "metadata": {}, "key": "\x1b[2J"},
        {**RECORD, "metadata": {}, "key": "\x1b[1A", "time_ms": 1},
    ],
    "and one in the key of a glued record": [{**RECORD, "metadata": {}, "key": "a\u202eb"}] * 2,
}


@pytest.mark.parametrize("by", quick_first(range(len(JUDGED_BY))))
@pytest.mark.parametrize("name", FOUND)
def test_found_input_is_judged(name: str, by: int, tmp_path: Path) -> None:
    for separator in ("\n", " "):
        text = separator.join(f":::MLLOG {json.dumps(record, ensure_ascii=False)}" for record in FOUND[name])
        with bounded():
            judge_log_bytes(text.encode(), by)
        judge_log_file(text.encode(), tmp_path)
