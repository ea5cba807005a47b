"""Documents for output: blocks (tables, charts, paragraphs) in which every string is formatted and ready to print."""
