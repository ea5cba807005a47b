"""Search plans that place embedding tables on devices, and compare the plans: the command `place`."""
