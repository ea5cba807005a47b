"""HTML templates of the report page."""
