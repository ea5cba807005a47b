"""Find files on disk: result sets, submissions, system descriptions, and files that look like results and are not
judged."""
