"""Record embedding lookups (command `trace`), and simulate memories slower than DRAM that hold embedding rows
(command `tiers`)."""
