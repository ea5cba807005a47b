"""The letters of the rules' codes, and which official checker looks at what each family looks at."""

FAMILIES: dict[str, str] = {
    "ST": "structure",
    "TI": "timing",
    "HP": "hyperparameters",
    "CA": "cadence",
    "QU": "quality",
    "SE": "seeds",
    "RS": "result sets",
    "RC": "reference convergence points",
    "SY": "system description",
    "SU": "submission tree",
    "PW": "power",
    "RO": "rounds",
}
LOOKED_AT_BY: dict[str, tuple[str, ...]] = {
    "ST": ("compliance",),
    "TI": ("compliance",),
    "HP": ("compliance",),
    "QU": ("compliance",),
    "SE": ("seed",),
    "RC": ("rcp",),
    "SY": ("system",),
    "RS": ("package",),
    "SU": ("package", "repo"),
    "PW": ("package",),
}
"""Cadence is looked at by none (mlcommons/logging issue 79)."""


def family_of(code: str) -> str:
    """'HP' of 'HP101'."""
    return code[:2]
