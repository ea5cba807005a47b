"""Figures and tables that several sections share, from facts."""
