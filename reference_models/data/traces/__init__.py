"""Make traces of embedding lookups: which rows are looked up, in which order, and at which stack distances."""
