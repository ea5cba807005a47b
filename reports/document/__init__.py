"""The document: blocks with every string ready to print."""
