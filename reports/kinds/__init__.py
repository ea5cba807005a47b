"""Presentation, on terminal and page, of what only some kinds of measurement or study (tables of computed or measured
numbers) have, in a module named after each kind; the module `details` defines what may be presented."""
