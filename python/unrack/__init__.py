"""Shared memory of a rack, from Python: see `unrack.rpc`."""
