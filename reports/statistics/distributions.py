"""Computes tails and quantiles of probability distributions, element by element, by scipy.special.

scipy.special takes a third of a second to import, so each function imports it when called, and no other module does.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Real = float | NDArray[np.float64]


def normal_tail(z: Real) -> Any:
    """Return the probability of a value of at most z, for a standard normal distribution."""
    from scipy.special import ndtr

    return ndtr(z)


def student_tail(degrees: Real, t: Real) -> Any:
    """Return the probability of a value of at most t, for Student's t with `degrees` of freedom."""
    from scipy.special import stdtr

    return stdtr(degrees, t)


def student_quantile(degrees: Real, probability: Real) -> Any:
    """Return the value that is not exceeded with `probability`, for Student's t with `degrees` of freedom."""
    from scipy.special import stdtrit

    return stdtrit(degrees, probability)


def chi_square_quantile(degrees: Real, upper_tail: Real) -> Any:
    """Return the value that is exceeded with probability `upper_tail`, for chi-square with `degrees` of freedom."""
    from scipy.special import chdtri

    return chdtri(degrees, upper_tail)


def f_tail(numerator: Real, denominator: Real, ratio: Real) -> Any:
    """Return the probability of a value above `ratio`, for the F distribution with `numerator` and `denominator`
    degrees of freedom."""
    from scipy.special import fdtrc

    return fdtrc(numerator, denominator, ratio)


def gamma_quantile(shape: Real, probability: Real) -> Any:
    """Return the value that is not exceeded with `probability`, for a gamma distribution of unit scale."""
    from scipy.special import gammaincinv

    return gammaincinv(shape, probability)
