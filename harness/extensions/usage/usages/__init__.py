"""Usages: what several models are asked beside one another, in files shipped here or the user's."""
