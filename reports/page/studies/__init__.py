"""Sections of the page other than results: sweeps, scaling laws, profiles and studies."""
