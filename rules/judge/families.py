"""All rules, by the level that they judge: the families of codes concatenated."""

from typing import Any

from rules.checks.result_set import convergence, files, logs, power, records, seeds, system_desc, times
from rules.checks.rule import Rule
from rules.checks.run_log import cadence, hyperparameters, quality, structure, timing
from rules.checks.submission import layout, shared_runs
from rules.checks.verdict import Level
from rules.errors import DefinitionError, did_you_mean

RULES: dict[Level, tuple[Rule[Any], ...]] = {
    "log": (
        *structure.RULES,
        *hyperparameters.RULES,
        *timing.RULES,
        *cadence.RULES,
        *quality.RULES,
        *seeds.LOG_RULES,
    ),
    "set": (
        *logs.RULES,
        *files.RULES,
        *records.RULES,
        *times.RULES,
        *seeds.SET_RULES,
        *system_desc.RULES,
        *power.RULES,
        *convergence.RULES,
    ),
    "submission": (*layout.RULES, *shared_runs.SUBMISSION_RULES),
    "round": shared_runs.ROUND_RULES,
}


def find_rule(code: str) -> Rule[Any]:
    """The rule of a code. Raises DefinitionError with a suggestion."""
    by_code = {rule.code: rule for rules in RULES.values() for rule in rules}
    if code.upper() not in by_code:
        raise DefinitionError(f"unknown rule {code!r}.{did_you_mean(code.upper(), list(by_code))}")
    return by_code[code.upper()]
