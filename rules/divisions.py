"""The divisions: what Closed and Open allow (training_rules.adoc, "Divisions" and "Run Results")."""

from dataclasses import dataclass

from rules import keys


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


def find_division(name: object) -> Division:
    """The division of a log's submission_division; Closed, the stricter one, where it says nothing."""
    return DIVISIONS.get(name, DIVISIONS[keys.CLOSED]) if isinstance(name, str) else DIVISIONS[keys.CLOSED]
