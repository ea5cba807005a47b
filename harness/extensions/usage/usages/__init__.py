"""Shipped usages: files of models that are served together, each with a rate and a deadline."""
