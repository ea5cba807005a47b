"""What takes the place of LoadGen where nothing is served."""


def require_nothing() -> None:
    """Stand in for the check that LoadGen is installed."""
