"""Generate a log of users' events (item, time, click), whose best reachable quality is known."""
