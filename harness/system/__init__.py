"""Describe this system: its hardware and software, the resources that a process may use, and sources of noise."""
