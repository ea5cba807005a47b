"""Store generated and prepared datasets as folders of arrays in files, which are read by memory maps."""
