"""What memory adds to tests of the core."""

_TRACE = "trace rm1_deeprecsys --lookups 6400 -o t"
WORDS = {"trace": ((), _TRACE), "tiers": ((_TRACE,), "tiers --trace t --cache 5%")}
