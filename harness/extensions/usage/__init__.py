"""A usage: several models with deadlines, scheduled on a virtual or the real clock, and scored."""
