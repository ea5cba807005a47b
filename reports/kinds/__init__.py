"""What kinds of measurement and of studies show of their own; each module is named as its kind is."""
