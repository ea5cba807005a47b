"""Verbs that measure, each with a command line that does, and those that do not, with why.

A verb is in one of the two. Extensions have theirs in their seams.py, under the same names.
"""

from collections.abc import Mapping

from hostile_folders import CORE_WORDS, Words
from seams import find_seams

_SET = "run dlrm_tiny --threads 1 -n 1 -q --seed 1"
_READS = "it reads what was measured"
MEASURING: Mapping[str, Words] = {
    **{
        name: CORE_WORDS[name] for name in ("run", "run pair", "versus", "resume", "resume sweep", "sweep", "profile")
    },
    "run --throughput": ((), "run dlrm_tiny --throughput 10 --threads 1 -q --seed 5"),
    "run --quality": ((), "run dlrm_tiny --quality 4096 --threads 1 -q --seed 5"),
    "profile of a set": ((_SET,), "profile dlrm_tiny --threads 1 -q -o results/latest"),
    "profile --forward": ((), "profile dlrm_tiny --forward --threads 1 -q"),
    **find_seams("MEASURING"),
}
"""By what is measured, whose first word is the verb: as in `hostile_folders`, what was there before, and the command
line."""
MEASURED_SLOWLY: Mapping[str, str] = {
    **dict.fromkeys(
        ("run pair", "versus", "resume sweep", "run --quality", "profile of a set"), "others show the same"
    ),
    **find_seams("MEASURED_SLOWLY"),
}
"""Those that `make test` leaves to `make test-all`, each with why."""
MEASURING_NOTHING: Mapping[str, str] = {
    **dict.fromkeys(("check", "score", "compare", "diff", "report"), _READS),
    **dict.fromkeys(("list", "show", "init", "schema"), "it looks at definitions and formats"),
    **dict.fromkeys(("system", "doctor"), "it looks at the system itself"),
    "data": "it makes and verifies data",
    "plan": "what a few steps take is an estimate there, and said as one",
    **find_seams("MEASURING_NOTHING"),
}
