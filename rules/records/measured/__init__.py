"""What several fresh processes measured: one record per kind, gathered in extra/<kind>.json."""
