"""Figures and tables that several sections of the page share, made from results."""
