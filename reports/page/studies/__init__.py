"""Sections of the page on what is no result: sweeps, scaling laws, profiles and studies."""
