"""One file per chart; marks and scales come from `reports.svg`."""
