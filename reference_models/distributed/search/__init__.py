"""Searches for the placement of a model's tables on devices, by modelled, measured or learnt costs."""
