"""How many examples a property test draws: the number that it asks for, in the share of the profile chosen."""

from hypothesis import settings

LEAST = 5


def examples(num: int) -> int:
    """`num` by a profile that draws Hypothesis' 100 where a test asks for no number; a tenth where that draws ten."""
    return max(min(num, LEAST), num * settings().max_examples // 100)
