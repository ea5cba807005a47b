"""The report's page: its contents, sections and figures, and the function that writes it."""
