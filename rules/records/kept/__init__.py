"""What runs leave to be used again: folders of arrays, each with a manifest whose type is here."""
