"""Where embedding tables should be, found by searches: `place`."""
