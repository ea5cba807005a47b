"""Tails and quantiles of distributions, element by element, from scipy.special.

It takes a third of a second to import, so that is done when the first of them is asked for, and here alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Real = float | NDArray[np.float64]


def normal_tail(z: Real) -> Any:
    """Return the probability of at most z, of a standard normal distribution."""
    from scipy.special import ndtr

    return ndtr(z)


def student_tail(degrees: Real, t: Real) -> Any:
    """Return the probability of at most t, of Student's t with these degrees of freedom."""
    from scipy.special import stdtr

    return stdtr(degrees, t)


def student_quantile(degrees: Real, probability: Real) -> Any:
    """Return the t that is not exceeded with this probability, of Student's t with these degrees of freedom."""
    from scipy.special import stdtrit

    return stdtrit(degrees, probability)


def chi_square_quantile(degrees: Real, upper_tail: Real) -> Any:
    """Return the value that is exceeded with this probability, of chi-square with these degrees of freedom."""
    from scipy.special import chdtri

    return chdtri(degrees, upper_tail)


def f_tail(numerator: Real, denominator: Real, ratio: Real) -> Any:
    """Return the probability of more than `ratio`, of the F distribution with these degrees of freedom."""
    from scipy.special import fdtrc

    return fdtrc(numerator, denominator, ratio)


def gamma_quantile(shape: Real, probability: Real) -> Any:
    """Return the value that is not exceeded with this probability, of a gamma distribution with unit scale."""
    from scipy.special import gammaincinv

    return gammaincinv(shape, probability)
