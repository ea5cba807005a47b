"""What codesign adds to tests of the core."""

WORDS = {"codesign": ((), "codesign dlrm_tiny --space pe_array --trials 2")}
DEAR = {"codesign": "a search of an accelerator"}
