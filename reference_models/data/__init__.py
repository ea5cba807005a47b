"""Generate, prepare and read datasets: a folder per kind of data (such as `criteo`), found by name in `registry`."""
