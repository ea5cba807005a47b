"""Hold the rules that judge one result set (the logs of one benchmark on one system), a family of rules per file."""
