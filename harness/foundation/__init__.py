"""What all of `harness` uses: exit codes and errors, files that are never half written."""
