"""Criteo's click logs: text files prepared into the store (`tsv`), MLPerf's preprocessed files read in place.

Text: `lines` reads blocks, `parse` turns them into columns, `spool` keeps these on disk, `dictionary`
numbers categories. Preprocessed: `mlperf_binary`, on arrays that `npy` locates.
"""
