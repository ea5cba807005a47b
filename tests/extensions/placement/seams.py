"""What placement adds to tests of the core."""

WORDS = {
    "place": ((), "place dlrm_tiny --devices 2 --by dim"),
    "place learnt": ((), "place dlrm_tiny --devices 2 --by greedy --cost net"),
}
DEAR = {"place learnt": "trains a net"}
