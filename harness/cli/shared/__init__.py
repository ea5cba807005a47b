"""Code shared by the verbs: options, requests and output."""
