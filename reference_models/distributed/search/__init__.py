"""Searches for a placement of a model's embedding tables on devices, by modelled, measured or learnt costs."""
