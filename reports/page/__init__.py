"""HTML page of a report: its contents, sections and figures, and the function that writes it."""
