"""Pages that tell the public about private releases: a label, a worksheet, an entry of
a registry. A page is made from certificates, which state what was promised, and from
the answers of a *curator*, who publishes the releases.

`study` reads the curator's answers from a file `study.toml`. `promise` adds up what the
certificates promise, and `words` says it in sentences. From these, `pages` writes a
one-page privacy label and a worksheet by NIST SP 800-226, and `registry_entry` an entry
for the OpenDP registry of deployments.

A statement is about one certificate, or about all certificates of a study together. It
keeps three voices apart. What is *recomputed* from the certificate is checked before
anything is written. What the software *recorded* in the certificate holds if that
software ran unchanged. What the *curator* says no software can check.
"""
