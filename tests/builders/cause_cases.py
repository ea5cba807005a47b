"""Breaks whose cause is said, and not only what follows from it."""

import json
from dataclasses import replace

from log_builder import with_record
from rule_cases import LogCase, Records, official
from submission_builder import write
from submission_cases import SYSTEM, after, good
from verdict_cases import VerdictCase

from rules.logs import keys


def _relaunched(records: Records) -> Records:
    """A run that crashed after its first evaluation, and the one that was started again, in one log."""
    place = next(index for index, one in enumerate(records) if one["key"] == keys.EVAL_STOP) + 1
    later = [{**one, "time_ms": one["time_ms"] + 10**7} for one in records]
    return [*records[:place], *later]


def stop_early(records: Records) -> Records:
    last = [one for one in records if one["key"] == keys.EVAL_ACCURACY][-1]["time_ms"]
    return with_record(records, keys.RUN_STOP, time_ms=last - 20)


def _renamed(key: str) -> LogCase:
    """The second evaluation's quality is logged by another key."""

    def change(records: Records) -> Records:
        second = [one for one in records if one["key"] == keys.EVAL_ACCURACY][1]
        return [{**one, "key": key} if one is second else one for one in records]

    return official(change, json.dumps(key)[1:-1], also=frozenset({"CA101", "CA107"}))


LOG_CASES: dict[tuple[str, str], LogCase] = {
    ("ST104", "relaunched"): official(_relaunched, keys.INIT_START, index=1, also=frozenset({"TI101"})),
    ("ST118", "capitals"): _renamed("EVAL_ACCURACY"),
    ("ST118", "another alphabet"): _renamed("ev\u0430l_accuracy"),
    ("TI105", "the target was met after run_stop"): official(
        stop_early, keys.EVAL_ACCURACY, index=-1, also=frozenset({"QU102", "TI101", "CA110"})
    ),
}


CASES = [
    *(replace(case.verdict_case(code), name=name) for (code, name), case in LOG_CASES.items()),
    *(
        VerdictCase(
            code="SU114",
            name=place or "root",
            write_bad=after(
                good, lambda top, place=place: write(top / place / "package_checker_params", "rcp-bypass\n")
            ),
            write_good=good,
            file="package_checker_params",
            is_error=False,
        )
        for place in ("", f"results/{SYSTEM}", f"results/{SYSTEM}/dlrm_dcnv2")
    ),
]
