"""Criteo's click logs: text files prepared into the store (`tsv`), MLPerf's preprocessed files read in place.

Text: `lines` reads blocks, `parse` turns them into columns, `spool` keeps these on disk, `dictionary`
numbers categories, `parameters` says how. Preprocessed: `one_hot` and `multi_hot`, on arrays that `npy` locates.
"""
