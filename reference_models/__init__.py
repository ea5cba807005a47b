"""Reference models, their data and their metrics. Knows neither targets nor rules."""
