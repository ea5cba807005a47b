"""Describe this system: its hardware and software, the resources a process may use, and sources of noise."""
