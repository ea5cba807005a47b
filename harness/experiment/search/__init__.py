"""Searches: what their axes are, what their trials found, and which configuration is tried next."""
