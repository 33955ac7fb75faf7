"""Backends of the search for a Fréchet mean: how passes over the records are made.
`generic` and `spd` are for records in memory, `device` for arrays on an accelerator,
and `chunks` for records that are seen only through sums.
"""
