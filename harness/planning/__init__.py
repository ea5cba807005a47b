"""Plan a run: its schedule, its memory and time, and the rules that it would break; times a few steps at most."""
