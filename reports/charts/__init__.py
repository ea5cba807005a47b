"""Charts of the report's HTML page, one module per kind of chart; `reports.charts.svg` draws their marks and
scales."""
