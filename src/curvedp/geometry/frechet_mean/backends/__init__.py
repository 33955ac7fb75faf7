"""How passes over the records are made: in memory, on a device, in chunks."""
