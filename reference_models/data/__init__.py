"""Generate, prepare and read datasets: a folder of modules per kind of data (such as `criteo`), which `registry`
finds by the kind's name."""
