"""Share code between the commands: options, requests and output."""
