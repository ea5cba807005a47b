"""Cases that usage adds to tests of the core."""

from typing import Any

WORDS = {"usage": ((), "usage models.toml --simulated --workers 1 -q --seed 5")}
SHOWN_PAGES = {"usage": ("a test", "score .* of 100")}
MEASURING = WORDS
FILES = {
    "models.toml": '[usage]\ntitle = "a test"\nsource = "a test"\nduration_s = 1\n'
    '[eyes]\nsource = "stand_in"\nwidths = [8, 8]\nrate = 20\ndeadline_ms = 60000\n',
}
STAND_INS = {"harness.extensions.usage.crew:Crew": "scripted_crew:ScriptedCrew"}
FILE_WORDS = {"usage": "usage {}.toml --simulated", "graph": "usage asked.toml --simulated"}
FILE_KEYS = {
    "graph": '[usage]\ntitle = "a"\nsource = "a"\nworkers = 1\n[find]\nsource = "retrieval"\nrate = 2\n'
    "deadline_ms = 60000\ngraph = {}\ntop_k = 5\n",
}
_USAGE = (
    '[usage]\ntitle = "a"\nsource = "a"\nduration_s = 2\nworkers = 2\nfactor = 1.0\n'
    '[eyes]\nsource = "stand_in"\nwidths = [8, 8]\nrate = 20\narrivals = "periodic"\ndeadline_ms = 60000\n'
    '[find]\nsource = "retrieval"\nrate = 2\ndeadline_ms = 60000\ngraph = "edges.txt"\ntop_k = 5\nquery_nodes = [1]\n'
    '[rank]\nsource = "dlrm_tiny"\nafter = "find"\nprobability = 0.5\nitems = 4\n'
)
_EDGES = "".join(f"{node} {(7 * node + 3) % 50}\n" for node in range(50))


def _usage() -> dict[str, Any]:
    return {
        "files": {"u.toml": _USAGE, "edges.txt": _EDGES},
        "inputs": "u.toml",
        "words": ("usage u.toml --simulated",),
    }


def _graph() -> dict[str, Any]:
    files = {"sound.toml": _USAGE, "edges.txt": _EDGES}
    return {"files": files, "inputs": "edges.txt", "words": ("usage sound.toml --simulated",)}


FAMILIES = {"usage": _usage, "graph": _graph}
COMPLETED = {"usage": ("fe", ["feed"])}
