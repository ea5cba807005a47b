"""Everything known about results, read once from logs and the files beside them."""
