"""Outputs of the commands as blocks (tables, paragraphs), which every output format renders."""
