"""Templates of the report page."""
