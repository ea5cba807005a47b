"""Criteo's files: text input and MLPerf's preprocessed binary layouts."""
