"""Read Criteo's click logs: text files are prepared into stored datasets, MLPerf's preprocessed files are read in
place.

For text, `parse` turns blocks of lines into columns, and `tsv` makes a dataset of the columns by the passes of
`prepared.pipeline`. For preprocessed files, `npy` locates the arrays, and `mlperf_binary` reads them.
"""
