"""What every module may use: errors, files that are written whole, and the processes that a run consists of."""
