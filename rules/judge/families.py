"""All rules, by the level that they judge: the families of codes one after the other."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from rules.checks.result_set import convergence, data, files, logs, pair, power, records, seeds, system_desc, times
from rules.checks.rule import Rule
from rules.checks.run_log import cadence, definition, hyperparameters, quality, structure, timing
from rules.checks.submission import layout, shared_runs
from rules.checks.verdict import Level
from rules.errors import DefinitionError, did_you_mean


def _rules_of(*families: ModuleType) -> Iterator[Rule[Any]]:
    """All rules of the files of families, in their order."""
    return (value for family in families for value in vars(family).values() if isinstance(value, Rule))


RULES: dict[Level, tuple[Rule[Any], ...]] = {
    "log": (
        *_rules_of(structure, definition, hyperparameters, timing, cadence, quality),
        seeds.seed_is_logged,
        seeds.one_seed,
    ),
    "set": (
        *_rules_of(logs, files, records, data, times, pair),
        seeds.seeds_differ,
        *_rules_of(system_desc, power, convergence),
    ),
    "submission": (*_rules_of(layout), shared_runs.runs_belong_to_one_set),
    "round": (
        shared_runs.runs_belong_to_one_submission,
        shared_runs.directories_are_submissions,
        shared_runs.names_differ,
    ),
}


def find_rule(code: str) -> Rule[Any]:
    """Return the rule of a code. Raises DefinitionError with a suggestion."""
    by_code = {rule.code: rule for rules in RULES.values() for rule in rules}
    if code.upper() not in by_code:
        raise DefinitionError(f"unknown rule {code!r}.{did_you_mean(code.upper(), list(by_code))}")
    return by_code[code.upper()]
