"""Store generated and prepared datasets as folders of arrays, which are read by memory maps."""
