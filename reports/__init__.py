"""Tables, statistics, comparison and rendering of results."""
