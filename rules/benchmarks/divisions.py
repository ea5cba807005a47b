"""The divisions: what Closed and Open allow (training_rules.adoc, "Divisions" and "Run Results")."""

from dataclasses import dataclass

from rules.logs import keys


@dataclass(frozen=True, kw_only=True, slots=True)
class Division:
    """`max_init_s` is how long initialisation may take untimed; `fixes` tells whether [closed] binds."""

    name: str
    max_init_s: float
    fixes_hyperparameters: bool


DIVISIONS = {
    keys.CLOSED: Division(name=keys.CLOSED, max_init_s=30 * 60, fixes_hyperparameters=True),
    keys.OPEN: Division(name=keys.OPEN, max_init_s=4 * 60 * 60, fixes_hyperparameters=False),
}


def max_init_s(division: Division, round_name: str | None) -> float:
    """How long initialisation may take: 20 minutes in round 0.7; 4 hours in Open from round 2.0 on; else 30 minutes
    (compliance rules of each round, training_*/common.yaml)."""
    if round_name == "0.7":
        return 20 * 60
    return DIVISIONS[keys.CLOSED].max_init_s if round_name in ("1.0", "1.1") else division.max_init_s


def find_division(name: object) -> Division:
    """The division of a log's submission_division; Closed, the stricter one, where it says nothing."""
    return DIVISIONS.get(name, DIVISIONS[keys.CLOSED]) if isinstance(name, str) else DIVISIONS[keys.CLOSED]
