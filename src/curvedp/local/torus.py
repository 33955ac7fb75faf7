"""The Laplace distribution of the flat torus, drawn exactly. On a torus of unit circles
the shortest way from x to y is y − x with each angle taken to (−π, π]. So the
distribution with density ∝ e^{−ε·d(x, y)} is the Laplace distribution of Euclidean
space, restricted to the cube (−π, π)^d and wrapped around. Here it is drawn and
integrated in one and two dimensions.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # scipy.optimize is loaded by its first use
from flint import arb

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.laws.exact.radial import ExactRadialDensity, LazyRadius, draw_radius
from curvedp.laws.isotropic.space import two_point_homogeneous_space
from curvedp.numerics.enclosures import decide, first_precision, round_arb
from curvedp.randomness import Source
from curvedp.randomness.csprng import Allowance
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms, accepts

# Nodes of Gauss and Legendre's rule on each panel, and how many panels a radius has.
_NODES = 64
_PANELS = 12

# Radii beyond this many scales have a weight below 2^-60.
_MAX_SCALES = 45.0


@dataclass(frozen=True)
class TorusLaplace:
    """Density ∝ exp(−d(x, p)/σ) on the flat torus of one or two angles.

    Parameters
    ----------
    dim : int
        The number of angles, 1 or 2.
    scale : float
        σ > 0, in radians.
    """

    dim: int
    scale: float

    def __post_init__(self) -> None:
        """Refuse dimensions in which the distribution is not integrated here."""
        if self.dim not in (1, 2):
            raise ParameterError(
                f"a Laplace law is known here on Torus(1) and Torus(2), not on "
                f"Torus({self.dim})"
            )

    @property
    def diameter(self) -> float:
        """The largest distance of two points, from the center of the cube to a corner."""
        return math.pi * math.sqrt(self.dim)

    @cached_property
    def _radial_rule(self) -> tuple[np.ndarray, np.ndarray]:
        """Quadrature rule of the radius r = d(x, p): its nodes, and its weights.

        The weights include the density e^{−r/σ}·r^{dim − 1} and the measure of the
        directions in which r is attained, so their sum is the normalizer.
        """
        reach = min(self.diameter, _MAX_SCALES * self.scale)
        inner = np.linspace(0.0, min(reach, math.pi), _PANELS + 1)
        edges = inner
        if reach > math.pi:
            # Beyond π the arc in the square begins like a square root.
            steps = np.linspace(0.0, 1.0, _PANELS + 1)[1:]
            edges = np.concatenate([inner, math.pi + (reach - math.pi) * steps**2])
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        # Gauss-Legendre nodes on each panel between two edges.
        half_widths = np.diff(edges)[:, np.newaxis] / 2
        middles = edges[:-1, np.newaxis] + half_widths
        radii = (middles + half_widths * nodes).ravel()
        density = np.exp(-radii / self.scale) * radii ** (self.dim - 1)
        node_weights = (half_widths * weights).ravel()
        return radii, node_weights * density * self._direction_measure(radii)

    def _direction_measure(self, radii: np.ndarray) -> np.ndarray:
        """Return the measure of directions in which a radius stays in the cube (−π, π)^d.

        Only there a step of that length is the shortest way. In the plane, a circle of
        radius r > π leaves the square over each side, by the angle 2·arccos(π/r).

        Parameters
        ----------
        radii : array
            Lengths r > 0.

        Returns
        -------
        array
            2 on the circle (two directions), an angle up to 2π on the two-torus.
        """
        if self.dim == 1:
            return np.full_like(radii, 2.0)
        half_gaps = np.where(
            radii > math.pi, np.arccos(np.minimum(1, math.pi / radii)), 0
        )
        return 2 * math.pi - 8 * half_gaps

    @cached_property
    def log_normalizer(self) -> float:
        """log ∫ e^{−d(x, p)/σ} dx over the torus, the normalizer of the density."""
        return math.log(float(self._radial_rule[1].sum()))

    @property
    def mean_radius(self) -> float:
        """E d(x, p), the mean distance from the center p to a draw x."""
        radii, weights = self._radial_rule
        return float(radii @ weights / weights.sum())

    def radial_cdf(self, r: np.ndarray | float) -> np.ndarray:
        """Return P(d ≤ r), elementwise.

        Parameters
        ----------
        r : array
            Distances from the center, in radians.

        Returns
        -------
        array
            Probabilities, in the shape of r.
        """
        if self.dim == 1:
            # An exponential law of the distance, cut off at π.
            mass_to_pi = -math.expm1(-math.pi / self.scale)
            mass_to_r = -np.expm1(-np.clip(r, 0, math.pi) / self.scale)
            return np.asarray(mass_to_r / mass_to_pi)

        shape = np.shape(r)
        radii = np.clip(np.atleast_1d(np.asarray(r, dtype=float)).ravel(), 0, None)
        # Up to π the mass is the same as in the plane, in closed form.
        near = np.minimum(radii, math.pi) / self.scale
        exponentials = -(np.expm1(-near) + near * np.exp(-near))
        mass_to_pi = 2 * math.pi * self.scale**2 * exponentials
        mass = mass_to_pi + self._mass_beyond_pi(radii)
        fractions = np.minimum(mass / math.exp(self.log_normalizer), 1.0)
        return np.asarray(fractions.reshape(shape))

    def _mass_beyond_pi(self, radii: np.ndarray) -> np.ndarray:
        """Return ∫ e^{−d(x, p)/σ} dx over π < d(x, p) ≤ r on the two-torus.

        There the circle of radius s leaves the square, and its arc begins like a square
        root. With s = π + span·t² the integrand over t in [0, 1] is smooth.

        Parameters
        ----------
        radii : array, shape (count,)
            The radii r.
        """
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        span = np.maximum(np.minimum(radii, self.diameter) - math.pi, 0.0)
        span = span[:, np.newaxis]  # one row for each radius, one column for each node
        t = (nodes + 1) / 2
        s = math.pi + span * t**2
        arc_lengths = np.exp(-s / self.scale) * s * self._direction_measure(s)
        density = arc_lengths * 2 * t * span  # ds = 2·t·span·dt
        return np.asarray(density @ weights / 2)

    def quantile(self, level: float) -> float:
        """Return the distance that a draw exceeds with probability 1 − level.

        Parameters
        ----------
        level : float
            The probability of a smaller distance, between 0 and 1.

        Returns
        -------
        float
            A distance in radians.
        """

        def excess(radius: float) -> float:
            """Return P(distance ≤ radius) − level, which increases."""
            return float(self.radial_cdf(radius)) - level

        return float(scipy.optimize.brentq(excess, 0.0, self.diameter))

    def characteristic(self, frequencies: np.ndarray) -> np.ndarray:
        """Return E cos⟨k, x − p⟩ of a draw x about p, for vectors k of whole numbers.

        It is the characteristic function of the noise: the factor by which the noise
        shrinks the Fourier coefficient of a density at the frequency k.

        Parameters
        ----------
        frequencies : array, shape (m, dim)
            The vectors k, one in each row.

        Returns
        -------
        array, shape (m,)
            One factor for each k.
        """
        vectors = np.asarray(frequencies, dtype=float).reshape(-1, self.dim)
        if self.dim == 1:
            return self._characteristic_on_circle(vectors[:, 0])

        s, t, masses = self._triangle_rule()
        total = 8 * masses.sum()
        values = []
        for a, b in vectors:
            # Sines cancel between the triangles. In four of them the first coordinate is
            # the larger one, in the other four the second.
            first_larger = np.cos(a * s) * np.cos(b * s * t)
            second_larger = np.cos(b * s) * np.cos(a * s * t)
            cosines = first_larger + second_larger
            values.append(4 * np.sum(masses * cosines) / total)
        return np.array(values)

    def _characteristic_on_circle(self, k: np.ndarray) -> np.ndarray:
        """Return E cos(k·(x − p)) of a draw x about p on the circle.

        This is ∫ e^{−s/scale}·cos(ks) ds over [0, π], divided by its value for k = 0.

        Parameters
        ----------
        k : array of float, shape (count,)
            Whole numbers.
        """
        rate = 1 / self.scale
        cosine_at_pi = np.cos(np.pi * k)  # (−1)^k
        density_at_pi = math.exp(-math.pi * rate)
        truncation = (1 - cosine_at_pi * density_at_pi) / (1 - density_at_pi)
        return np.asarray(rate**2 / (rate**2 + k**2) * truncation)

    def _triangle_rule(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a quadrature rule for the noise on one eighth of the square torus.

        By symmetry the square is eight triangles of points (s, s·t), 0 < t < 1, on which
        the density e^{−|(s, s·t)|/scale} is smooth. The area element is s ds dt.

        Returns
        -------
        s : array, shape (points, 1)
            The first coordinates of the nodes.
        t : array, shape (nodes,)
            The quotients of the second and the first coordinate.
        masses : array, shape (points, nodes)
            The density at each node, times the weight of the node.
        """
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        t = (nodes + 1) / 2
        t_weights = weights / 2

        # Gauss-Legendre nodes on each of several panels of s.
        longest = min(math.pi, _MAX_SCALES * self.scale)
        edges = np.linspace(0.0, longest, 4 * _PANELS + 1)
        half_widths = np.diff(edges)[:, np.newaxis] / 2
        middles = edges[:-1, np.newaxis] + half_widths
        s = (middles + half_widths * nodes).reshape(-1, 1)
        s_weights = (half_widths * weights).reshape(-1, 1) * s

        lengths = s * np.hypot(1.0, t)
        rate = 1 / self.scale
        return s, t, s_weights * t_weights * np.exp(-rate * lengths)

    def sample(self, rng: np.random.Generator, centers: np.ndarray) -> np.ndarray:
        """Draw one vector of angles about each center in floats. NOT private.

        Displacements are proposed from the cube or from Euclidean space, whichever
        accepts more, until every center has one that was accepted.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        centers : array, shape (n, dim)
            The points p about which is drawn, as angles.

        Returns
        -------
        array, shape (n, dim)
            Angles in [−π, π).
        """
        draws = np.empty_like(centers)
        open_rows = np.arange(len(centers))  # rows without an accepted displacement
        while len(open_rows):
            steps, is_accepted = self._propose(rng, len(open_rows))
            rows = open_rows[is_accepted]
            draws[rows] = centers[rows] + steps[is_accepted]
            open_rows = open_rows[~is_accepted]
        return np.asarray(np.remainder(draws + math.pi, 2 * math.pi) - math.pi)

    def _propose(
        self, rng: np.random.Generator, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Propose n displacements, and decide which of them are accepted.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the proposals.
        n : int
            The number of proposals.

        Returns
        -------
        steps : array, shape (n, dim)
            The displacements.
        is_accepted : array of bool, shape (n,)
            Which of them are draws of the distribution.
        """
        if self._is_wide:
            # Uniform in the cube, accepted with the probability e^{−length/σ}.
            steps = rng.uniform(-math.pi, math.pi, (n, self.dim))
            lengths = np.linalg.norm(steps, axis=1)
            return steps, rng.random(n) < np.exp(-lengths / self.scale)

        # The Euclidean law: a uniform direction, and a length with the gamma law of
        # shape dim. It is accepted in the cube.
        steps = rng.standard_normal((n, self.dim))
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        steps *= self.scale * rng.standard_gamma(self.dim, (n, 1))
        return steps, np.all(np.abs(steps) < math.pi, axis=1)

    @property
    def _is_wide(self) -> bool:
        """Whether proposals come from the cube and not from Euclidean space.

        This is a public function of the scale: the proposal with the smaller mass.
        """
        cube = (2 * math.pi) ** self.dim
        if self.dim == 1:
            return cube < 2 * self.scale
        return cube < 2 * math.pi * self.scale**2

    def draw_exactly(self, center: np.ndarray, source: Source, grid: int) -> list[int]:
        """Draw about one center, rounded to the grid 2^-grid of angles in (−π, π].

        The displacement is drawn as lazy reals and accepted with certainty. The angle
        center + displacement is reduced modulo 2π before it is rounded, so that what is
        rounded is a function of the point of the torus alone.

        Parameters
        ----------
        center : array of shape (dim,)
            Angles, taken as exact numbers.
        source : Source
            The random bits.
        grid : int
            The grid is 2^-grid.

        Returns
        -------
        list of int
            The angles in units of 2^-grid.

        Raises
        ------
        NotResolved
            If more random bytes were used than the public bound `Allowance` permits.
        """
        allowance = Allowance(self.dim)
        metered = allowance.meter(source)
        if self._is_wide:
            step: _Step = self._draw_from_cube(metered)
        else:
            step = self._draw_from_plane(metered)

        def round_angles(bits: int) -> list[int] | None:
            """Return the angles on the grid if they are certain at this precision.

            Parameters
            ----------
            bits : int
                About how many bits of the displacement are determined.

            Returns
            -------
            list of int or None
                None if an enclosure does not determine its integer; more bits are
                drawn then.
            """
            integers: list[int] = []
            displacement = step.balls(bits)
            for angle, entry in zip(center.tolist(), displacement, strict=True):
                turned = arb(angle) + entry
                # How many full turns lead from [−π, π) to the angle.
                turns = ((turned / arb.pi() + 1) / 2).floor().unique_fmpz()
                if turns is None:
                    return None
                integer = round_arb(turned - 2 * int(turns) * arb.pi(), grid)
                if integer is None:
                    return None
                integers.append(integer)
            return integers

        integers = decide(round_angles, first_precision(grid))
        # Raises if the draw used more bytes than are permitted.
        allowance.tau()
        return integers

    def _draw_from_plane(self, source: Source) -> "_PolarStep":
        """Draw a Euclidean Laplace displacement until it lies in the cube (−π, π)^d.

        In the cube it is the shortest way on the torus, so that restricting it there
        gives the Laplace distribution of the torus.

        Parameters
        ----------
        source : Source
            The random bits.
        """
        space = two_point_homogeneous_space(Euclidean(self.dim))
        assert space is not None, "Euclidean space is two-point homogeneous"
        density = ExactRadialDensity("laplace", space, self.scale)
        while True:
            step = _PolarStep(
                draw_radius(density, source), LazyNormals(source, self.dim)
            )
            if decide(step.is_in_cube):
                return step

    def _draw_from_cube(self, source: Source) -> "_CubeStep":
        """Draw a uniform displacement until it is accepted.

        Acceptance has the probability e^{−length/σ}, decided with certainty: rejection
        sampling of the Laplace distribution on the cube.

        Parameters
        ----------
        source : Source
            The random bits.
        """
        while True:
            step = _CubeStep(LazyUniforms(source, self.dim), self.dim, self.scale)
            if accepts(LazyUniforms(source, 1), step.log_weight):
                return step


@dataclass(frozen=True)
class _PolarStep:
    """A displacement with a lazy radius and a uniform direction of lazy normals.

    Lazy numbers are random reals whose digits are drawn as far as a decision needs them.

    Parameters
    ----------
    radius : LazyRadius
        The length of the displacement.
    normals : LazyNormals
        A normal vector, one number for each angle; its direction is used.
    """

    radius: LazyRadius
    normals: LazyNormals

    def balls(self, bits: int) -> list[arb]:
        """Return enclosures of the coordinates of the displacement.

        Parameters
        ----------
        bits : int
            About how many bits of each coordinate are determined.
        """
        normals = self.normals.balls(bits)
        length = sum(z * z for z in normals).sqrt()
        r = self.radius.ball(bits)
        return [r * z / length for z in normals]

    def is_in_cube(self, bits: int) -> bool | None:
        """Return whether all coordinates are certainly below π in size.

        Parameters
        ----------
        bits : int
            About how many bits of each coordinate are determined.

        Returns
        -------
        bool or None
            None if it cannot be decided with so few bits.
        """
        sizes = [abs(entry) for entry in self.balls(bits)]
        if any(size > arb.pi() for size in sizes):
            return False
        if all(size < arb.pi() for size in sizes):
            return True
        return None


@dataclass(frozen=True)
class _CubeStep:
    """A uniform displacement in the cube (−π, π)^d, proposed for Laplace noise.

    Parameters
    ----------
    uniforms : LazyUniforms
        Uniform numbers in (0, 1) whose digits are drawn as they are needed.
    dim : int
        The number d of angles.
    scale : float
        The scale σ of the Laplace distribution, on which acceptance depends.
    """

    uniforms: LazyUniforms
    dim: int
    scale: float

    def balls(self, bits: int) -> list[arb]:
        """Return enclosures of the coordinates of the displacement.

        Parameters
        ----------
        bits : int
            About how many bits of each coordinate are determined.
        """
        uniforms = self.uniforms.balls(bits, range(self.dim))
        return [(2 * u - 1) * arb.pi() for u in uniforms]

    def log_weight(self, bits: int) -> arb:
        """Return −length/σ, the logarithm of the probability of acceptance.

        Parameters
        ----------
        bits : int
            About how many bits of each coordinate are determined.
        """
        squared_length = sum(entry * entry for entry in self.balls(bits))
        return -squared_length.sqrt() / arb(self.scale)


_Step = _PolarStep | _CubeStep
