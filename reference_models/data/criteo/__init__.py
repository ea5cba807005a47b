"""Read Criteo's click logs: text files are prepared into stored datasets, MLPerf's preprocessed files are read in
place.

Text: `parse` turns blocks of lines into columns, `tsv` makes a dataset of them by the passes of `prepared.pipeline`.
Preprocessed files: `mlperf_binary`, on arrays that `npy` locates.
"""
