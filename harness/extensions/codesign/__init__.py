"""Search the hardware of an array of processing elements and a benchmark's tilings on it: the command `codesign`."""
