"""What every module may use: errors, and the world of processes that a run consists of."""
