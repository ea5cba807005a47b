"""Files on disk: result sets, submissions, system descriptions, and what is passed over."""
