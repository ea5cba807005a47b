"""Documents for output: blocks (tables, charts, paragraphs) in which every string is ready to print."""
