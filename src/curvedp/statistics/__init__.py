"""The statistics that can be released, one per file, each with its sensitivity.
`curvedp.core.statistic` has the contract. docs/theory/sensitivity.md has the theorems.
"""
