"""Charts of the page, a module each; marks and scales come from `reports.charts.svg`."""
