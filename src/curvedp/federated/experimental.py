"""The warning that federation is experimental, which is given once in a process.
Federation means that several sites compute a private statistic together.
"""

import warnings

from curvedp.errors import ExperimentalWarning

_TEXT = (
    "curvedp.federated is experimental: its masking protocol has not been reviewed by "
    "outside cryptographers (docs/theory/federation.md)"
)

# Whether this process was warned.
_was_warned = False


def warn_experimental() -> None:
    """Warn on the first use of federation in this process, and never again.

    A site and a server both call this before they answer or send anything, from Python
    as well as through Flower.
    """
    global _was_warned
    if _was_warned:
        return
    _was_warned = True
    warnings.warn(_TEXT, ExperimentalWarning, stacklevel=3)
