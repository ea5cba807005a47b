"""Outputs of runs that are used again: folders of arrays, each with a manifest whose type is here."""
