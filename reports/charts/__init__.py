"""Charts of the report's HTML page, one module per kind of chart; the module `reports.charts.svg` draws the marks and
scales of all charts."""
