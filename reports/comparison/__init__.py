"""Configurations held side by side: pairing, comparability, factors, differences."""
