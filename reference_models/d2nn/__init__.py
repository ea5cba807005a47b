"""Diffractive optical network (D2NN), a classifier: light passes masks that shift its phase, and falls on a detector
for each class."""
