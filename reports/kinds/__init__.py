"""Details of single kinds of measurement and study for terminal and page; each module has the name of its kind."""
