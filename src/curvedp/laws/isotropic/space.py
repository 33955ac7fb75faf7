"""Two-point homogeneous spaces, described by the curvatures along one geodesic. On such
a space any two points at distance r look alike: it is Euclidean, hyperbolic, spherical,
or projective (lines, rotations of three-space, planar shapes). A pair (κ, n) says that
n directions across a geodesic have the sectional curvature κ.

An isotropic law on it is one radius and one uniform direction (`isotropic.law`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from curvedp.geometry.manifold import Manifold


@dataclass(frozen=True)
class TwoPointHomogeneousSpace:
    """A space on which every geodesic meets the same curvatures.

    Parameters
    ----------
    jacobi_spectrum : tuple of (float, float)
        Pairs (κ, n): across a geodesic, n directions have sectional curvature κ.
        Curvature 0 is included, so that the multiplicities add up to dim − 1.
    diameter : float
        The length up to which every geodesic is shortest; infinite if the space is
        not compact.

    Examples
    --------
    >>> TwoPointHomogeneousSpace(((-1.0, 2),)).volume_growth_rate
    2.0
    """

    jacobi_spectrum: tuple[tuple[float, float], ...]
    diameter: float = math.inf

    @property
    def dim(self) -> int:
        """The dimension: one along a geodesic, and the multiplicities across it."""
        return 1 + int(sum(count for _, count in self.jacobi_spectrum))

    @property
    def curvature(self) -> float | None:
        """The constant curvature κ, or None on a projective space.

        A circle counts as a sphere of dimension one, whose κ follows from its length.
        A projective space has several curvatures, or one curvature κ and a diameter
        below π/√κ.
        """
        if not self.jacobi_spectrum:
            if math.isinf(self.diameter):
                return 0.0
            return (math.pi / self.diameter) ** 2

        if len(self.jacobi_spectrum) > 1:
            return None
        ((curvature, _),) = self.jacobi_spectrum
        sphere_diameter = math.inf
        if curvature > 0:
            sphere_diameter = math.pi / math.sqrt(curvature)
        return curvature if self.diameter == sphere_diameter else None

    @property
    def is_projective(self) -> bool:
        """Whether this is a real or complex projective space, of curvatures κ to 4κ.

        Real: curvature κ in every direction. Complex: 4κ in one direction and κ in the
        others. The diameter is π/(2√κ) for both. Quaternionic spaces are neither.
        """
        smallest_curvature = min(kappa for kappa, _ in self.jacobi_spectrum)
        if not smallest_curvature > 0:
            return False
        projective_diameter = math.pi / (2 * math.sqrt(smallest_curvature))
        if not math.isclose(self.diameter, projective_diameter, rel_tol=1e-9):
            return False

        # Real: one curvature, in all directions.
        if len(self.jacobi_spectrum) == 1:
            return True

        # Complex: in units of κ, curvature 1 in d − 2 directions and 4 in one. The
        # tolerance covers the rounding of the stated curvatures.
        relative_spectrum = sorted(
            (kappa / smallest_curvature, multiplicity)
            for kappa, multiplicity in self.jacobi_spectrum
        )
        if len(relative_spectrum) != 2:
            return False
        (small_kappa, small_count), (large_kappa, large_count) = relative_spectrum
        has_complex_counts = small_count == self.dim - 2 and large_count == 1
        has_complex_curvatures = math.isclose(
            small_kappa, 1.0, rel_tol=1e-9
        ) and math.isclose(large_kappa, 4.0, rel_tol=1e-9)
        return has_complex_counts and has_complex_curvatures

    @property
    def volume_growth_rate(self) -> float:
        """The rate h = Σ n·√−κ at which volumes grow.

        The area of a sphere of radius r is of the order e^{hr}. The sum is over the
        negative curvatures κ across a geodesic, with multiplicities n. A Laplace law of
        scale σ has finite mass if σ·h < 1.
        """
        return sum(
            count * math.sqrt(-kappa)
            for kappa, count in self.jacobi_spectrum
            if kappa < 0
        )


@lru_cache(maxsize=256)
def two_point_homogeneous_space(manifold: Manifold) -> TwoPointHomogeneousSpace | None:
    """Return the two-point homogeneous space that a manifold is, or None.

    A symmetric manifold qualifies if it has constant curvature and the diameter of a
    simply connected space, or if it is a real or complex projective space. Other spaces
    on which curvatures do not depend on the direction (complex hyperbolic,
    quaternionic) have no law here: the privacy profiles are proved for these only.

    Parameters
    ----------
    manifold : Manifold
        The manifold.

    Returns
    -------
    TwoPointHomogeneousSpace or None
        None if the manifold is no such space.
    """
    spectrum = manifold.jacobi_spectrum
    diameter = manifold.injectivity_radius
    is_symmetric = manifold.is_homogeneous and manifold.is_symmetric
    if spectrum is None or not is_symmetric:
        return None

    if manifold.dim > 1 and not spectrum and math.isinf(diameter):
        # Euclidean space states no curvature at all.
        spectrum = ((0.0, manifold.dim - 1),)
    space = TwoPointHomogeneousSpace(spectrum, diameter)
    has_flat_directions = space.dim != manifold.dim
    if has_flat_directions:
        return None

    has_profile = space.curvature is not None or space.is_projective
    return space if has_profile else None


def constant_curvature_factors(
    manifold: Manifold,
) -> tuple[tuple[float, int], ...] | None:
    """Write a manifold as a product of at most two spaces of constant curvature.

    All flat factors together count as one, since their product is Euclidean.
    `privacy.profiles.products` integrates over two radii, hence the limit of two.

    Parameters
    ----------
    manifold : Manifold
        The manifold.

    Returns
    -------
    tuple of (curvature, dimension), or None
        None if the manifold is no such product. The symmetric positive definite 2×2
        matrices are ℝ × H² with curvatures 0 and −½.
    """
    space = two_point_homogeneous_space(manifold)
    if space is not None:
        if space.curvature is None:
            return None
        return ((space.curvature, manifold.dim),)

    if len(manifold.factors) > 1:
        return _joined_factors(manifold)

    # What is left may be one curved space times a flat one.
    spectrum = manifold.jacobi_spectrum
    if not spectrum or len(spectrum) > 1 or not manifold.is_homogeneous:
        return None
    ((curvature, multiplicity),) = spectrum
    if curvature > 0:
        return None
    # The directions that are missing in the spectrum are flat and split off.
    flat_dim = manifold.dim - 1 - multiplicity
    return ((0.0, flat_dim), (curvature, multiplicity + 1))


def _joined_factors(manifold: Manifold) -> tuple[tuple[float, int], ...] | None:
    """Return the constant-curvature factors of a product; None if there are too many.

    At most two are allowed. All flat factors count as one.

    Parameters
    ----------
    manifold : Manifold
        A product.

    Returns
    -------
    tuple of (float, int), or None
        The curvature and the dimension of each factor.
    """
    factors: list[tuple[float, int]] = []
    for factor in manifold.factors:
        inner_factors = constant_curvature_factors(factor)
        if inner_factors is None:
            return None
        factors.extend(inner_factors)

    n_curved = sum(_is_curved(kappa, dim) for kappa, dim in factors)
    n_flat = 1 if n_curved < len(factors) else 0
    return tuple(factors) if n_curved + n_flat <= 2 else None


def _is_curved(kappa: float, dim: int) -> bool:
    """Return whether a factor of constant curvature differs from Euclidean space.

    A circle does, although it is flat, because it is closed; its κ is positive here.

    Parameters
    ----------
    kappa : float
        The curvature κ of the factor.
    dim : int
        Its dimension.

    Returns
    -------
    bool
        True for spheres, circles and hyperbolic spaces of two dimensions or more.
    """
    return kappa > 0 or (kappa < 0 and dim > 1)
