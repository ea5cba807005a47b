"""Tables, named values and sentences that the HTML page and the terminal share."""
