"""What happens around a mechanism: choosing it, paying for it, checking what it released.
`choose` takes the mechanism with the least predicted error, `predict` predicts errors
on public populations, `pay` charges the ledger, `selection` publishes the best of
several releases, `rebuild` makes a mechanism again from its certificate, `verify`
recomputes every claim, and `warnings` says what should make a reader doubt a release.
Everything here reads public numbers and released values only.
"""
