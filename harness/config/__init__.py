"""From a name, a file and options to one resolved configuration."""
