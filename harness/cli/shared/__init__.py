"""What the verbs share: their options, and how they print."""
