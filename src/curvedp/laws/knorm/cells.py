"""Exact rejection sampling from a density ∝ exp(−g/s)·J on a public domain. The domain
is covered by cells, which are cubes of coordinates z. The function g is known only
through evaluations and a Lipschitz constant, which give a lower bound of g over each
cell; J is the volume of the coordinates and s the scale.

Accepted points follow the target whatever the cells are, so a cell may be split where
the bound is loose (docs/theory/knorm.md).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.errors import EnvelopeViolation
from curvedp.laws.backend import Floats
from curvedp.laws.knorm.domains import GeodesicBall

LocalLipschitzBounds = Callable[..., tuple[Floats, ...]]
"""Bounds Lipschitz constants of g locally.

Called as bounds(*points, distances): `distances` of shape (N, n_blocks) says how far
each argument of g may move from its point. Returns one array of N constants for each
block.
"""

# The largest number of cells (about 300 MB). From there on no cell is split, and
# sampling goes on.
_MAX_CELLS = 1 << 20

# Evaluations of g in one call.
_EVALUATIONS_PER_BATCH = 2048

# The largest number of proposals that are made at once, before they are thinned.
_PROPOSALS_PER_BATCH = 1 << 17

# The cost of a proposal that is dropped before g is evaluated, in evaluations of g. It
# only steers the work.
_COST_OF_THINNED_PROPOSAL = 1 / 64

# Proposals of a batch, beyond the expected number that is needed, and the fewest
# evaluations of one refinement. Only the speed depends on them.
_SPARE_FRACTION = 1.1
_SPARE_PROPOSALS = 64
_FEWEST_NEW_EVALUATIONS = 64

# Relative tolerance of the checks. A wrong Lipschitz constant shows at 1e-2 and more.
_ROUNDING = 1e-9

# The guess of the target's mass in a cell is lowered by this fraction of the cell's
# log-variation, so that cells are split where g may still vary a lot.
_FRACTION_OF_VARIATION = 0.15


class Cells(NamedTuple):
    """Cubes of coordinates and bounds of the target over each; one row is one cell."""

    center: Floats
    """Centers, shape (N, n_blocks, k)."""
    half_edges: Floats
    """Half the edge of each block's cube, shape (N, n_blocks)."""
    evaluation_point: Floats
    """Where g was evaluated: the point of the domain nearest to the center."""
    value: Floats
    """g at that point, shape (N,)."""
    lipschitz: Floats
    """Lipschitz constants of g in coordinates, shape (N, n_blocks)."""
    lower: Floats
    """A lower bound of g over the cell."""
    log_upper_bound: Floats
    """An upper bound of log(exp(−g/s)·J) over the cell."""
    log_mass: Floats
    """log(top·volume of the cell): the mass of the envelope."""
    log_cost: Floats
    """The logarithm of the work that a proposal to this cell causes, times its mass."""
    log_target: Floats
    """A guess of the logarithm of the target's mass in the cell."""
    log_variation: Floats
    """How much log target may vary over the cell."""

    @property
    def n_cells(self) -> int:
        """The number of cells, one for each row."""
        return len(self.value)

    def take(self, rows: NDArray[Any]) -> "Cells":
        """Return some of the cells.

        Parameters
        ----------
        rows : array of int or bool
            Indices of cells, or a mask with one entry for each.

        Returns
        -------
        Cells
            The chosen rows of every column.
        """
        return Cells(*(column[rows] for column in self))

    def joined_with(self, others: "Cells") -> "Cells":
        """Return these cells followed by others, as one table.

        Parameters
        ----------
        others : Cells
            Further cells, such as the children of those that were split.

        Returns
        -------
        Cells
            All rows.
        """
        pairs = zip(self, others, strict=True)
        return Cells(*(np.concatenate(pair) for pair in pairs))


class ParentBounds(NamedTuple):
    """What a cell inherits from the cell that it was split from; one row per child.

    Attributes
    ----------
    evaluation_point : array of shape (N, n_blocks, k)
        The point of the parent at which g was evaluated.
    value : array of shape (N,)
        g at that point.
    lipschitz : array of shape (N, n_blocks)
        The parent's Lipschitz constants, which hold in the child too.
    lower : array of shape (N,)
        The parent's lower bound of g, which holds in the child too.
    """

    evaluation_point: Floats
    value: Floats
    lipschitz: Floats
    lower: Floats

    def take(self, rows: NDArray[Any]) -> "ParentBounds":
        """Return some of the rows: those of children that meet the domain.

        Parameters
        ----------
        rows : array of bool
            A mask with one entry for each child.

        Returns
        -------
        ParentBounds
            The chosen rows of every column.
        """
        return ParentBounds(*(column[rows] for column in self))


class _NormRanges(NamedTuple):
    """Between which norms each block of a cell's points lies; shape (N, n_blocks)."""

    smallest: Floats
    largest: Floats


class _FunctionBounds(NamedTuple):
    """Values and bounds of g in some cells; one row is one cell.

    Attributes
    ----------
    evaluation_point : array of shape (N, n_blocks, k)
        Where g was evaluated: the point of the domain nearest to the center.
    value : array of shape (N,)
        g at that point.
    lipschitz : array of shape (N, n_blocks)
        Lipschitz constants of g in coordinates.
    variation : array of shape (N, n_blocks)
        How much g can vary over each block of the cell.
    lower : array of shape (N,)
        A lower bound of g over the cell.
    """

    evaluation_point: Floats
    value: Floats
    lipschitz: Floats
    variation: Floats
    lower: Floats


class LipschitzRejectionSampler:
    """Rejection sampler of the target exp(−g/scale)·J for a Lipschitz function g.

    J(z) is the volume of the manifold per unit of volume of the coordinates z.

    Parameters
    ----------
    domain : GeodesicBall
        The set of the points that can be drawn.
    scale : float
        The scale s > 0 of the target exp(−g/s)·J.
    function : callable
        g ≥ 0, as described at `KNormLaw.sample`.
    constants : tuple of float, or callable
        Lipschitz constants of g, one for each block, or `LocalLipschitzBounds`.
    rng : object
        A NumPy generator, or anything with its methods `random`, `uniform` and
        `standard_exponential`.

    Attributes
    ----------
    build_evaluations, trial_evaluations : int
        Evaluations of g spent on cells and on proposals.
    """

    def __init__(
        self,
        domain: GeodesicBall,
        scale: float,
        function: Callable[..., Any],
        constants: tuple[float, ...] | LocalLipschitzBounds,
        rng: Any,
    ) -> None:
        """Start with one cell that contains the domain, and evaluate g in it once.

        Parameters
        ----------
        domain : GeodesicBall
            The set of the points that can be drawn.
        scale : float
            The scale s > 0 of the target exp(−g/s)·J.
        function : callable
            g ≥ 0, from points to numbers; on a tangent bundle from points and vectors.
        constants : tuple of float, or callable
            Lipschitz constants of g, one for each block of coordinates, or a function
            that bounds them locally (`LocalLipschitzBounds`).
        rng : object
            A NumPy generator, or anything with its methods `random`, `uniform` and
            `standard_exponential`.
        """
        self._domain = domain
        self._scale = scale
        self._function = function
        self._constants = constants
        self._rng = rng

        self._radii = np.asarray(domain.radii)
        self._block_dim = domain.manifold.dim
        self._corners = _cube_corners(self._block_dim)
        self._thinning = _ThinningEstimate(len(self._radii), self._block_dim)

        # The first cell is a cube around the whole domain.
        self.build_evaluations = 0
        self.trial_evaluations = 0

        center = np.zeros((1, len(self._radii), self._block_dim))
        half_edges = self._radii[None, :].copy()
        self._cells = self._measure_cells(center, half_edges, None)

    def draw(self, count: int) -> Floats:
        """Return independent coordinates of points that follow the target.

        Cells are refined as long as that costs less than the proposals it saves.

        Parameters
        ----------
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, n_blocks, k)
            The coordinates.
        """
        batches: list[Floats] = []
        missing = count
        while missing > 0:
            # Refine as long as fewer evaluations went into cells than into proposals.
            expected_trials = missing / self._predicted_yield()
            n_trials = max(expected_trials, self.trial_evaluations)
            may_refine = self._cells.n_cells < _MAX_CELLS
            if may_refine and n_trials > self.build_evaluations and self._refine():
                continue

            # Small batches let the next refinement come soon; large ones are cheaper. An
            # eighth of the expected trials is a compromise, and 16 more save a batch
            # where few draws are missing.
            smallest_batch = max(missing, expected_trials / 8) + 16
            largest_batch = max(self.build_evaluations, _EVALUATIONS_PER_BATCH)
            accepted_points = self._propose(int(min(smallest_batch, largest_batch)))
            batches.append(accepted_points[:missing])
            missing -= len(batches[-1])

        # Without draws there is nothing to concatenate.
        if not batches:
            return np.zeros((0, len(self._radii), self._block_dim))
        return np.concatenate(batches)

    def _predicted_yield(self) -> float:
        """Return about how many draws one evaluation of the function g gives.

        The prediction steers the work; the law of the draws does not depend on it.

        Called by `draw` to decide whether splitting cells saves work.

        Returns
        -------
        float
            A number from 1e-300 to 1.
        """
        largest = self._cells.log_cost.max()
        target_mass = np.exp(self._cells.log_target - largest).sum()
        total_cost = np.exp(self._cells.log_cost - largest).sum()
        return min(max(float(target_mass / total_cost), 1e-300), 1.0)

    def _refine(self) -> bool:
        """Split the cells whose bound is loosest; return whether there were any.

        Called by `draw` between batches of proposals, as long as splitting saves more
        evaluations of g than it costs. Replaces `self._cells`.

        Returns
        -------
        bool
            True if cells were split.
        """
        split_cells = self._cells_to_split()
        if len(split_cells) == 0:
            return False

        # Measure the children, which inherit the bounds of their parents.
        cells = self._cells
        center, half_edges = self._children_of(split_cells)
        parent_of_child = np.repeat(split_cells, len(self._corners))
        parents = ParentBounds(
            evaluation_point=cells.evaluation_point[parent_of_child],
            value=cells.value[parent_of_child],
            lipschitz=cells.lipschitz[parent_of_child],
            lower=cells.lower[parent_of_child],
        )
        children = self._measure_cells(center, half_edges, parents)

        # Replace the parents by their children.
        is_unchanged = np.ones(cells.n_cells, dtype=bool)
        is_unchanged[split_cells] = False
        self._cells = cells.take(is_unchanged).joined_with(children)
        return True

    def _children_of(self, split_cells: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Split some cells into 2^k children each, and return the children.

        A cell is halved in all k coordinates of one block: the block whose Lipschitz
        constant times half edge is largest, because it loosens the bound most.

        Parameters
        ----------
        split_cells : array of int, shape (n,)
            Indices of the cells to split.

        Returns
        -------
        center : array, shape (n·2^k, n_blocks, k)
            The centers of the children, one parent after the other.
        half_edges : array, shape (n·2^k, n_blocks)
            Half the edge of each block's cube.
        """
        # Halve the block of each cell that loosens its bound most.
        parents = self._cells.take(split_cells)
        parent_index = np.arange(parents.n_cells)
        block = np.argmax(parents.lipschitz * parents.half_edges, axis=1)
        half_edges = parents.half_edges.copy()
        half_edges[parent_index, block] /= 2

        # One row for each child: the center of its parent, moved in the halved block to
        # one corner of the cube of half the size.
        n_children = len(self._corners)
        center = np.repeat(parents.center, n_children, axis=0)
        child_index = np.arange(len(center))
        child_half_edge = np.repeat(half_edges[parent_index, block], n_children)
        corner = np.tile(self._corners, (parents.n_cells, 1))
        child_block = np.repeat(block, n_children)
        center[child_index, child_block] += child_half_edge[:, None] * corner
        return center, np.repeat(half_edges, n_children, axis=0)

    def _cells_to_split(self) -> NDArray[np.intp]:
        """Return the indices of the cells with the most envelope mass above the target.

        Evaluating g in the children of these cells adds about a quarter to the
        evaluations spent on cells so far, within fixed limits.

        Called by `_refine`.

        Returns
        -------
        array of int
            Indices of cells.
        """
        # The envelope's mass in each cell, times the fraction above the target.
        cells = self._cells
        relative_cost = np.exp(cells.log_cost - cells.log_cost.max())
        excess = relative_cost * -np.expm1(-cells.log_variation)

        # The number of evaluations that the next refinement may cost, and the number of
        # cells whose children need that many.
        n_evaluations = min(
            max(_FEWEST_NEW_EVALUATIONS, self.build_evaluations // 4),
            _EVALUATIONS_PER_BATCH * 4,
        )
        n_cells = min(n_evaluations // len(self._corners) + 1, len(excess))
        loosest = np.argpartition(-excess, n_cells - 1)[:n_cells]
        return np.asarray(loosest[excess[loosest] > 0])

    def _measure_cells(
        self, center: Floats, half_edges: Floats, parents: ParentBounds | None
    ) -> Cells:
        """Evaluate g once in every cell that meets the domain, and bound the target.

        For a cell with half edges half_b, g is evaluated at the point z of the domain
        nearest to its center (`evaluation_point`). With Lipschitz constants L_b and k
        coordinates in each block b,

            g ≥ g(z) − Σ_b L_b·half_b·√k    in the cell,

        which gives the upper bound `log_upper_bound` of log(exp(−g/s)·J). Counts the
        evaluations in `build_evaluations`.

        `log_upper_bound` must bound the target over the whole cell, or draws would not
        follow it. tests/laws/knorm/test_cells.py checks it, and that wrong constants
        are noticed.

        Parameters
        ----------
        center : array of shape (N, n_blocks, k)
            The centers of the cells.
        half_edges : array of shape (N, n_blocks)
            Half the edge of each block's cube.
        parents : ParentBounds, optional
            Bounds of the cells that these were split from.

        Returns
        -------
        Cells
            The cells that meet the domain.

        Raises
        ------
        EnvelopeViolation
            If g differs from its value in the parent cell by more than its constant
            allows.
        """
        # Cells that do not meet the domain are left out.
        smallest_norm = _smallest_block_norms(center, half_edges)
        meets_domain = np.all(smallest_norm <= self._radii, axis=1)
        center = center[meets_domain]
        half_edges = half_edges[meets_domain]
        norms = self._norm_ranges(smallest_norm[meets_domain], center, half_edges)
        if parents is not None:
            parents = parents.take(meets_domain)

        # The envelope: an upper bound of the target's density, times the cell's volume.
        g = self._bound_function(center, half_edges, norms, parents)
        half_diagonal = half_edges[:, 0] * math.sqrt(self._block_dim)
        curved_length = self._domain.curved_length(center) + half_diagonal
        log_volume_bound = self._domain.log_volume_bound(
            norms.smallest, norms.largest, curved_length
        )
        log_upper_bound = log_volume_bound - g.lower / self._scale
        log_cell_volume = self._block_dim * np.log(2 * half_edges).sum(axis=1)
        log_mass = log_upper_bound + log_cell_volume

        # Estimates that steer the refinement; the law of the draws does not depend on
        # them.
        log_variation = g.variation.sum(axis=1) / self._scale
        log_volume = self._domain.log_volume(g.evaluation_point)
        log_density = log_volume - g.value / self._scale
        log_target = log_density + log_cell_volume
        log_cost = log_mass + self._log_cost_of_proposal(g.variation, g.value - g.lower)
        return Cells(
            center=center,
            half_edges=half_edges,
            evaluation_point=g.evaluation_point,
            value=g.value,
            lipschitz=g.lipschitz,
            lower=g.lower,
            log_upper_bound=log_upper_bound,
            log_mass=log_mass,
            log_cost=log_cost,
            log_target=log_target - _FRACTION_OF_VARIATION * log_variation,
            log_variation=log_variation,
        )

    def _bound_function(
        self,
        center: Floats,
        half_edges: Floats,
        norms: "_NormRanges",
        parents: ParentBounds | None,
    ) -> "_FunctionBounds":
        """Evaluate g once in every cell, and bound it over the cell from below.

        Parameters
        ----------
        center : array of shape (N, n_blocks, k)
            The centers of the cells.
        half_edges : array of shape (N, n_blocks)
            Half the edge of each block's cube.
        norms : _NormRanges
            The smallest and the largest norm of each block in each cell.
        parents : ParentBounds, optional
            Bounds of the cells that these were split from.

        Returns
        -------
        _FunctionBounds
            The values of g, and a lower bound for each cell.
        """
        evaluation_point = self._nearest_in_domain(center)
        value = self._evaluate(evaluation_point)
        self.build_evaluations += len(value)

        half_diagonal = half_edges * math.sqrt(self._block_dim)
        lipschitz = self._lipschitz_constants(
            evaluation_point, half_diagonal, norms.largest
        )
        variation = lipschitz * half_edges * math.sqrt(self._block_dim)  # L_b·half_b·√k
        lower = np.maximum(value - variation.sum(axis=1), 0.0)
        if parents is not None:
            # A parent's bound holds in its children too.
            self._check_against_parents(parents, evaluation_point, value)
            lower = np.maximum(lower, parents.lower)
        return _FunctionBounds(evaluation_point, value, lipschitz, variation, lower)

    def _norm_ranges(
        self, smallest_norm: Floats, center: Floats, half_edges: Floats
    ) -> "_NormRanges":
        """Return between which norms the points of each cell lie, inside the domain.

        Parameters
        ----------
        smallest_norm : array of shape (N, n_blocks)
            The result of `_smallest_block_norms`.
        center : array of shape (N, n_blocks, k)
            The centers of the cells.
        half_edges : array of shape (N, n_blocks)
            Half the edge of each block's cube.

        Returns
        -------
        _NormRanges
            The smallest and the largest norm of each block.
        """
        farthest_corner = np.abs(center) + half_edges[:, :, None]
        largest_norm = np.linalg.norm(farthest_corner, axis=2)
        return _NormRanges(smallest_norm, np.minimum(largest_norm, self._radii))

    def _check_against_parents(
        self, parents: ParentBounds, evaluation_point: Floats, value: Floats
    ) -> None:
        """Raise `EnvelopeViolation` if g changes faster than its constants allow.

        Called after a split: a wrong Lipschitz constant would make draws follow another
        law.

        Parameters
        ----------
        parents : ParentBounds
            Bounds of the cells that these were split from, and g there.
        evaluation_point : array of shape (N, n_blocks, k)
            Where g was evaluated in the new cells.
        value : array of shape (N,)
            g at these points.
        """
        moves = evaluation_point - parents.evaluation_point
        distances = np.linalg.norm(moves, axis=2)
        allowed_change = np.sum(parents.lipschitz * distances, axis=1)
        self._check_bound(np.abs(value - parents.value), allowed_change, value)

    def _log_cost_of_proposal(self, variation: Floats, drop: Floats) -> Floats:
        """Return the logarithm of the work that one proposal to a cell causes.

        The unit is one evaluation of g. A proposal costs an evaluation if thinning
        leaves it, and little otherwise.

        Parameters
        ----------
        variation : array of shape (N, n_blocks)
            How much g can vary over each block of the cell.
        drop : array of shape (N,)
            How far the lower bound of g is below its value.

        Returns
        -------
        array of shape (N,)
            One number for each cell.
        """
        log_thinned = self._thinning(variation / self._scale, drop / self._scale)
        return np.asarray(
            np.logaddexp(log_thinned, math.log(_COST_OF_THINNED_PROPOSAL))
        )

    def _nearest_in_domain(self, center: Floats) -> Floats:
        """Return the point of the domain nearest to each center.

        Outside of the domain g need not exist. Projection onto a ball is 1-Lipschitz,
        so no point of a cell is farther from the projection than from the center.

        Parameters
        ----------
        center : array, shape (n, n_blocks, k)
            Centers of cells.

        Returns
        -------
        array, shape (n, n_blocks, k)
            The points.
        """
        norm = np.linalg.norm(center, axis=2)
        is_outside = norm > self._radii
        safe_norm = np.where(is_outside, norm, 1.0)
        shrink = np.where(is_outside, self._radii / safe_norm, 1.0)
        return np.asarray(center * shrink[:, :, None])

    def _lipschitz_constants(
        self, evaluation_point: Floats, half_diagonal: Floats, largest_norm: Floats
    ) -> Floats:
        """Return Lipschitz constants of g in coordinates, for each cell and block.

        The constants that the user gave hold for distances on the manifold, and are
        converted.

        Parameters
        ----------
        evaluation_point : array of shape (N, n_blocks, k)
            The point of each cell at which g was evaluated.
        half_diagonal : array of shape (N, n_blocks)
            The constants hold up to this distance from the point, and so in the cell.
        largest_norm : array of shape (N, n_blocks)
            Upper bounds of the norms of the blocks.

        Returns
        -------
        array, shape (N, n_blocks)
            The constants.
        """
        domain = self._domain
        if isinstance(self._constants, tuple):
            return domain.lipschitz(self._constants, largest_norm)

        # How far each argument of g moves when the coordinates move by half a diagonal:
        # the argument itself is a function with the Lipschitz constant 1.
        distances = []
        for unit_constants in np.eye(len(self._radii)):
            stretch = domain.lipschitz(tuple(unit_constants), largest_norm)
            distances.append(np.sum(stretch * half_diagonal, axis=1))
        argument_distances = np.stack(distances, axis=1)

        # Compute local constants in batches, and convert them.
        batches = []
        for start in range(0, len(evaluation_point), _EVALUATIONS_PER_BATCH):
            batch = slice(start, start + _EVALUATIONS_PER_BATCH)
            points = domain.points(evaluation_point[batch])
            batches.append(self._constants(*points, argument_distances[batch]))
        constants = tuple(np.concatenate(block) for block in zip(*batches, strict=True))
        return domain.lipschitz(constants, largest_norm)

    def _propose(self, n_evaluations: int) -> Floats:
        """Evaluate g at thinned proposals and return the accepted ones.

        The proposals z have a density ∝ exp(−bound(z)/s)·J, where s is the scale, J the
        volume of the coordinates and bound(z) <= g(z). Each is accepted with probability
        exp(−(g(z) − bound(z))/s), so that accepted points have the density
        ∝ exp(−g/s)·J.

        Parameters
        ----------
        n_evaluations : int
            The number of proposals at which g is evaluated.

        Returns
        -------
        array, shape (n_accepted, n_blocks, k)
            Coordinates of the accepted proposals.
        """
        proposals, lower_bound = self._collect_proposals(n_evaluations)

        # Evaluate g at them, and accept in proportion to target/proposal density.
        value = self._evaluate(proposals)
        self.trial_evaluations += len(proposals)
        self._check_bound(lower_bound, value, value)
        log_ratio = (lower_bound - value) / self._scale
        # Minus an exponential variate is the logarithm of a uniform one.
        is_accepted = log_ratio > -self._rng.standard_exponential(len(proposals))
        return np.asarray(proposals[is_accepted])

    def _collect_proposals(self, count: int) -> tuple[Floats, Floats]:
        """Return exactly `count` proposals that thinning leaves, without evaluating g.

        Called by `_propose`, which then evaluates g at all of them at once.

        Parameters
        ----------
        count : int
            The number of proposals.

        Returns
        -------
        proposals : array, shape (count, n_blocks, k)
            Their coordinates.
        lower_bound : array, shape (count,)
            A lower bound of g at each of them.
        """
        log_mass = self._cells.log_mass
        cumulative_mass = np.cumsum(np.exp(log_mass - log_mass.max()))
        point_batches: list[Floats] = []
        bound_batches: list[Floats] = []

        n_missing = count
        n_before_thinning = count
        while n_missing > 0:
            points, bounds = self._thinned_proposals(cumulative_mass, n_before_thinning)
            point_batches.append(points[:n_missing])
            bound_batches.append(bounds[:n_missing])
            n_missing -= len(bound_batches[-1])

            # As many as are expected to be needed at the rate of the last batch.
            n_left = max(len(points), 1)
            n_needed = int(_SPARE_FRACTION * n_before_thinning * n_missing / n_left)
            n_before_thinning = min(n_needed + _SPARE_PROPOSALS, _PROPOSALS_PER_BATCH)
        return np.concatenate(point_batches), np.concatenate(bound_batches)

    def _thinned_proposals(
        self, cumulative_mass: Floats, n: int
    ) -> tuple[Floats, Floats]:
        """Draw points with density ∝ exp(−bound/s)·J, without evaluating g.

        s is the scale, and J the volume of the coordinates. In each cell g is at least

            bound(z) = max(g(at) − Σ_b L_b·|z_b − at_b|, lower),

        a cone under its graph. Here `at` is the point of the cell at which g was
        evaluated (`evaluation_point`), L_b are the Lipschitz constants of g in the
        blocks b of coordinates, and `lower` is a bound over the cell. Points that are
        uniform in the cells are thinned to that density.

        The accepted density must be the same whatever the cells are.

        Parameters
        ----------
        cumulative_mass : array of shape (n_cells,)
            Cumulative masses of the cells under the envelope.
        n : int
            The number of points before thinning.

        Returns
        -------
        z : array of shape (n_left, n_blocks, k)
            The points that are left.
        lower_bound : array of shape (n_left,)
            bound(z) at each of them, a lower bound of g.
        """
        cells = self._cells
        rng = self._rng
        # A cell in proportion to its mass, and a uniform point of it in the domain.
        heights = rng.random(n) * cumulative_mass[-1]
        cell = np.searchsorted(cumulative_mass[:-1], heights, side="right")
        offsets = rng.uniform(-1, 1, (n, len(self._radii), self._block_dim))
        z = cells.center[cell] + cells.half_edges[cell][:, :, None] * offsets
        is_inside = np.all(np.linalg.norm(z, axis=2) <= self._radii, axis=1)
        z = z[is_inside]
        cell = cell[is_inside]

        # Keep each point with the probability (density under the cone)/envelope.
        distances = np.linalg.norm(z - cells.evaluation_point[cell], axis=2)
        drop = np.sum(cells.lipschitz[cell] * distances, axis=1)
        lower_bound = np.maximum(cells.value[cell] - drop, cells.lower[cell])
        log_cone = self._domain.log_volume(z) - lower_bound / self._scale
        log_ratio = log_cone - cells.log_upper_bound[cell]
        # Minus an exponential variate is the logarithm of a uniform one.
        is_under_cone = log_ratio > -rng.standard_exponential(len(z))
        return z[is_under_cone], lower_bound[is_under_cone]

    def _evaluate(self, z: Floats) -> Floats:
        """Return g at coordinates z, evaluated in batches, after checking its answers.

        All evaluations of g go through this function, for cells and for proposals.

        Parameters
        ----------
        z : array of shape (N, n_blocks, k)
            Coordinates of points of the domain.

        Returns
        -------
        array of shape (N,)
            The values of g.

        Raises
        ------
        EnvelopeViolation
            If g returns another shape, a negative number, or NaN.
        """
        value = np.empty(len(z))
        for start in range(0, len(z), _EVALUATIONS_PER_BATCH):
            batch = slice(start, start + _EVALUATIONS_PER_BATCH)
            points = self._domain.points(z[batch])

            # g must return one number >= 0 for each point. The comparison is false for
            # NaN.
            batch_value = np.asarray(self._function(*points), dtype=np.float64)
            n_points = len(points[0])
            if batch_value.shape != (n_points,) or not np.all(batch_value >= 0):
                raise EnvelopeViolation(
                    f"the gradient norm must return {n_points} numbers >= 0"
                )
            value[batch] = batch_value
        return value

    def _check_bound(self, smaller: Floats, larger: Floats, value: Floats) -> None:
        """Raise `EnvelopeViolation` unless smaller ≤ larger everywhere, up to rounding.

        Every evaluation of g is checked against its Lipschitz constant in this way.

        Parameters
        ----------
        smaller, larger : arrays of shape (N,)
            The quantity and its bound; NaN fails.
        value : array of shape (N,)
            g, from which the tolerance is computed.
        """
        tolerance = _ROUNDING * (self._scale + np.abs(value))
        if not np.all(smaller <= larger + tolerance):
            raise EnvelopeViolation(
                "the gradient norm leaves its Lipschitz bound by "
                f"{np.max(smaller - larger):.3g}: its constants are too small"
            )


def _smallest_block_norms(center: Floats, half_edges: Floats) -> Floats:
    """Return the smallest norm that each block has in each cell.

    Used to leave out the cells that lie outside of the domain.

    Parameters
    ----------
    center : array of shape (N, n_blocks, k)
        The centers of the cells.
    half_edges : array of shape (N, n_blocks)
        Half the edge of each block's cube.

    Returns
    -------
    array of shape (N, n_blocks)
        The norms of the points nearest to 0.
    """
    nearest_to_zero = np.maximum(np.abs(center) - half_edges[:, :, None], 0.0)
    return np.asarray(np.linalg.norm(nearest_to_zero, axis=2))


def _cube_corners(k: int) -> Floats:
    """Return the sign vectors of ℝ^k: the positions of the 2^k children of a cell.

    Positions are in units of the children's half edge.

    Parameters
    ----------
    k : int
        The dimension of the cell.

    Returns
    -------
    array, shape (2^k, k)
        All vectors of entries ±1.
    """
    axes = [[-1.0, 1.0]] * k
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, k)


class _ThinningEstimate:
    """Estimate of the fraction of a cell's proposals that thinning leaves.

    It is E exp(−(D − Σ_b G_b·|w_b|/√k)₊) for w uniform on the cubes of the cell: the
    cone drops by G_b toward the corners of block b, and by D down to the bound of the
    cell. The expectation is taken over fixed points, which is enough to steer the work.

    Parameters
    ----------
    n_blocks, k : int
        The number of blocks of coordinates and the dimension of each.
    """

    def __init__(self, n_blocks: int, k: int) -> None:
        """Fix 64 points w of the unit cubes at which the expectation is taken.

        Parameters
        ----------
        n_blocks, k : int
            The number of blocks of coordinates, and the dimension of each.
        """
        points = np.random.default_rng(0).uniform(-1, 1, (64, n_blocks, k))
        self._lengths = np.linalg.norm(points, axis=2) / math.sqrt(k)

    def __call__(self, drop: Floats, depth: Floats) -> Floats:
        """Return the logarithm of the estimated fraction, one for each cell.

        Parameters
        ----------
        drop : array of shape (N, n_blocks)
            G_b: by how much the cone drops toward the corners of block b.
        depth : array of shape (N,)
            D: how far the cell's lower bound is below the top of the cone.

        Returns
        -------
        array of shape (N,)
            Logarithms ≤ 0.
        """
        exponents = np.maximum(depth[:, None] - drop @ self._lengths.T, 0.0)
        smallest = exponents.min(axis=1)
        mean = np.mean(np.exp(smallest[:, None] - exponents), axis=1)
        return np.asarray(np.log(mean) - smallest)
