"""Tables, facts and sentences that the page and the terminal share."""
