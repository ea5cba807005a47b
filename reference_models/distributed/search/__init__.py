"""Searches for a placement of a model's embedding tables on devices, by costs that are modelled, measured, or
predicted by a trained net."""
