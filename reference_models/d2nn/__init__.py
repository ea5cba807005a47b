"""Diffractive optical network: light passes masks that shift its phase, and falls on the detector of a class."""
