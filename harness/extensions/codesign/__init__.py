"""Hardware of an array of processing elements and a benchmark's tilings on it, searched together: `codesign`."""
