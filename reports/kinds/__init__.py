"""Additional output of some kinds of measurement and of study (tables of computed or measured numbers), on terminal
and page: one module per kind, named after the kind. The module `details` defines what a kind may add."""
