"""A usage: several models with deadlines, scheduled in real or simulated time, and scored."""
