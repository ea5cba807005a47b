"""Searches for where the tables of a model go, by modelled, measured or learnt costs."""
