"""List all rules by the level that they judge (log, set, submission, round), one family of codes after the other."""

from collections.abc import Iterator
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from rules.checks.result_set import (
    bypass,
    chain,
    clocks,
    consistency,
    convergence,
    data,
    files,
    logs,
    open_division,
    pace,
    pair,
    power,
    records,
    seeds,
    system_desc,
    times,
)
from rules.checks.rule import Rule, family_of
from rules.checks.run_log import cadence, definition, hyperparameters, plausibility, quality, structure, timing
from rules.checks.submission import layout, shared_runs
from rules.checks.verdict import Level
from rules.errors import DefinitionError


def _rules_of(*families: ModuleType) -> Iterator[Rule[Any]]:
    """Yield all rules that the given modules (one family of rules each) define, in order."""
    return (value for family in families for value in vars(family).values() if isinstance(value, Rule))


ALL = "ALL"
_MAX_NEAR = 3
RULES: dict[Level, tuple[Rule[Any], ...]] = {
    "log": (
        *_rules_of(structure, definition, hyperparameters, timing, cadence, quality, plausibility),
        seeds.seed_is_logged,
        seeds.one_seed,
    ),
    "set": (
        *_rules_of(logs, open_division, files, records, data, clocks, consistency, times, pace, chain, pair),
        seeds.seeds_differ,
        *_rules_of(system_desc, power, convergence, bypass),
    ),
    "submission": (*_rules_of(layout), shared_runs.runs_belong_to_one_set),
    "round": (
        shared_runs.runs_belong_to_one_submission,
        shared_runs.directories_are_submissions,
        shared_runs.names_differ,
    ),
}


def find_rule(code: str) -> Rule[Any]:
    """Return the rule with a code such as HP101. Raises DefinitionError that names the nearest codes and how to list
    them."""
    by_code = {rule.code: rule for rule in all_rules()}
    word = code.upper()
    if word not in by_code:
        near = get_close_matches(word, by_code, n=_MAX_NEAR)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise DefinitionError(
            f"unknown rule {code!r}.{meant} 'dlrmbench check --explain all' lists them, '--explain QU' those of one "
            "family."
        )
    return by_code[word]


def list_rules(word: str) -> tuple[Rule[Any], ...]:
    """Return the rules of the family that `word` names by its two letters, or all rules if `word` is 'all', in the
    order of their codes; none for any other word."""
    return tuple(rule for rule in all_rules() if word.upper() in (ALL, family_of(rule.code)))


def all_rules() -> tuple[Rule[Any], ...]:
    """Return every rule of every level (log, set, submission, round) once, in the order of their codes."""
    by_code = {rule.code: rule for rules in RULES.values() for rule in rules}
    return tuple(by_code[code] for code in sorted(by_code))
