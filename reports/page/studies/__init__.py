"""Sections of the page that are not on results: sweeps, scaling laws, profiles and studies (tables of computed or
measured numbers)."""
