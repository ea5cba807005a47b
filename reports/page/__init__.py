"""The page: its contents, sections and figures, and the verb that writes it."""
