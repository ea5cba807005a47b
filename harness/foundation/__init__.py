"""What all of `harness` stands on: exit codes and errors, files that are never half written."""
