"""An optical network: light passes masks that shift its phase, and where it falls says which class it is."""
