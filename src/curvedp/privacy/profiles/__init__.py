"""Privacy profiles δ(ε) of noise laws, one module for each kind of space.

`base` derives everything that a profile can be asked from the law of its privacy loss;
the other modules say which law that is, and for which pair of neighboring data sets.
"""
