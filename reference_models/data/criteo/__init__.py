"""Read Criteo's click logs: text files prepared into the store (`tsv`), MLPerf's preprocessed files read in place.

Text: `parse` turns blocks of lines into columns, `tsv` is the reader for the passes in `prepared`.
Preprocessed: `mlperf_binary`, on arrays that `npy` locates.
"""
