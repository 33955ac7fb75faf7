"""The contract between what is released, how noise is added, and what a certificate says.

Read these files first, in this order:

`statistic`
    What is released: a frozen public value that owns its sensitivity.
`mechanism`
    How it is released: a mechanism calibrates itself to a guarantee, draws, and
    describes itself completely. `Mechanism.release` is the only builder of a
    certificate.
`certificate`
    What a release says about itself, as data: codes and numbers, no sentences.
`capabilities`
    What only some statistics and mechanisms can do: predict their error, lead to a
    confidence region, be replayed from a transcript.
`registry`
    Where mechanisms and statistics are found by the name that certificates give them.
`wording`
    Every sentence that a person reads about a release, by code.

docs/project/architecture.md follows one release through the code.
"""
