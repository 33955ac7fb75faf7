"""What Gaussian or Laplace noise on a projective space promises: δ(ε), μ and so on. A
projective space is the space of lines through the origin of Rᵐ or ℂᵐ. This module
checks parameters and converts them to units in which two lines are at most π/2 apart.

The privacy loss itself is computed in `loss.projective`. Theorem P1
(docs/theory/exact-profiles.md): two neighboring data sets are easiest to tell apart if
their noise centers are exactly the sensitivity apart.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import THREE_ROUNDINGS
from curvedp.privacy.loss.projective import HALF_PI, ProjectiveLoss
from curvedp.privacy.profiles.radial import RadialProfile

# Ranges of scale·√curvature and of sensitivity/scale that doubles resolve.
_SCALE_RANGE = (1e-12, 1e6)
_RATIO_RANGE = (1e-12, 1e6)


@dataclass(frozen=True)
class ProjectiveProfile(RadialProfile):
    """The exact profile of isotropic noise on a real or complex projective space.

    It holds for every pair of noise centers at distance at most `sensitivity`
    (docs/theory/exact-profiles.md, Theorem P1).

    Parameters
    ----------
    kind : str
        'gaussian' or 'laplace'.
    field : str
        'real' or 'complex'.
    dim : int
        The real dimension: at least 2 if real, even and at least 4 if complex (ℂP¹ is a
        sphere).
    curvature : float
        The smallest sectional curvature κ > 0; the diameter is π/(2√κ).
    scale : float
        The scale of the noise.
    sensitivity : float
        The largest distance between two centers.
    """

    field: str
    dim: int
    curvature: float
    scale: float
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        """Validate the space, the sensitivity and the range that floats can resolve."""
        super().__post_init__()
        self._validate_names_and_dim()
        self._validate_lengths()

    def _validate_names_and_dim(self) -> None:
        """Check the names of the noise and of the space, and its dimension."""
        kind_is_valid = self.kind in ("gaussian", "laplace")
        field_is_valid = self.field in ("real", "complex")
        if not (kind_is_valid and field_is_valid):
            raise ParameterError(
                f"kind={self.kind!r}, field={self.field!r}: kind must be 'gaussian' or "
                "'laplace', and field 'real' or 'complex'"
            )

        # A complex space has an even real dimension.
        smallest_dim = 2 if self.field == "real" else 4
        dim = _validate.integer("dim", self.dim, smallest_dim)
        if self.field == "complex" and dim % 2:
            raise ParameterError(
                "of a complex space must be even", parameter="dim", value=self.dim
            )

    def _validate_lengths(self) -> None:
        """Check that lengths are at most the diameter, and that doubles resolve them."""
        root = math.sqrt(_validate.positive("curvature", self.curvature))
        diameter = HALF_PI / root
        if self.sensitivity > diameter * (1 + THREE_ROUNDINGS):
            raise ParameterError(
                f"must not exceed the diameter {diameter:g} of the space",
                parameter="sensitivity",
                value=self.sensitivity,
            )
        _validate.within("scale·√curvature", self.scale * root, *_SCALE_RANGE)
        ratio = self.sensitivity / self.scale
        _validate.within("sensitivity/scale", ratio, *_RATIO_RANGE)

    @property
    def default_loss_law(self) -> ProjectiveLoss:
        """The privacy loss of the noise, with a default number of quadrature nodes.

        Lengths are multiplied by √curvature, so that the diameter is π/2.
        """
        root = math.sqrt(self.curvature)
        return ProjectiveLoss(
            self.kind,
            k=1,
            d=self.dim,
            s=self.scale * root,
            distance=min(self.sensitivity * root, HALF_PI),
            is_complex=self.field == "complex",
        )

    @property
    def space(self) -> str:
        """The name of the space, for messages."""
        return (
            f"the {self.field} projective space of dimension {self.dim} "
            f"and curvature {self.curvature:g}"
        )
