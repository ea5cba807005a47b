"""What kinds of measurement and of studies show of their own; each folder is named as its kind is."""
