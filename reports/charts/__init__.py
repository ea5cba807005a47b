"""One file per chart; marks and scales come from `reports.charts.svg`."""
