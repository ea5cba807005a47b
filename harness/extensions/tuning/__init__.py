"""Search a benchmark's settings under constraints: each trial is proposed from the measurements of earlier trials."""
