"""Provide the basics for all of `harness`: exit codes and errors, files that are never half written, status lines."""
