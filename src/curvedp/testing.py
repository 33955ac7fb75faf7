"""Tests of manifolds that users write themselves: `check_manifold`. Each function below
tests one property and raises an error if the manifold M lacks it. Points p and q, tangent
vectors u and v at p, and coordinates z are random.

A manifold must have properties such as "exp and log are inverse to each other". Each
property is a function of this module whose docstring states it. None uses a formula of a
particular space: distances, frames and curvatures are compared with each other. The
bounds on which a privacy guarantee rests (curvature, injectivity radius) are tested at
random points and planes; to prove them is up to the author. Read
docs/project/extending.md next.
"""

import copy
import dataclasses
import inspect
import itertools
import math
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from curvedp.conformance import check_mechanism, check_statistic
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.capabilities import boundary_distance, euclidean_factor
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.names import parse_manifold

__all__ = [
    "CHECKS",
    "KERNELS",
    "check_manifold",
    "check_mechanism",
    "check_statistic",
    "default_max_length",
    "sample",
    "sectional_curvatures",
]

# How many random points each property is tested with.
_N_POINTS = 30

# The largest distance of random points from the origin: at most 1, at most these shares
# of the injectivity radius and of the distance to a boundary, and at most this length
# if no injectivity radius is known.
_DEFAULT_MAX_LENGTH = 1.0
_SHARE_OF_INJECTIVITY_RADIUS = 0.4
_SHARE_OF_BOUNDARY_DISTANCE = 0.3
_MAX_LENGTH_WITHOUT_RADIUS = 0.25

# A disturbed point is off the manifold if `project` changes it by more than this; then
# its residual must be larger than the second number.
_SMALLEST_CHANGE_OFF_MANIFOLD = 1e-4
_SMALLEST_RESIDUAL_OFF_MANIFOLD = 1e-9

Points = dict[str, np.ndarray]
"""Random arguments by letter: points p and q, tangent vectors u and v at p, and the
coordinates z of v.
"""

KERNELS: dict[str, str] = {
    "exp": "pv",
    "log": "pq",
    "dist": "pq",
    "inner": "puv",
    "norm": "pv",
    "transport": "pqv",
    "project": "p",
    "from_record": "p",
    "to_tangent": "pv",
    "residual": "p",
    "from_coordinates": "pz",
    "to_coordinates": "pv",
    "normal_coordinates": "pq",
    "from_normal_coordinates": "pz",
}
"""The kernels of a manifold and the letters of their arguments, as in `Points`."""


def batched_methods(M: Manifold) -> list[tuple[str, str, Callable[..., Any]]]:
    """Return the methods of a manifold that act on many points or vectors at once.

    They are called kernels, and their result for one row depends on that row alone.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.

    Returns
    -------
    list of (str, str, callable)
        The name of each kernel, the letters of its arguments (such as "pv" for a point
        p and a tangent vector v at p), and the method.
    """
    return [(name, letters, getattr(M, name)) for name, letters in KERNELS.items()]


def check_manifold(
    manifold: Manifold, *, max_length: float | None = None, seed: int = 0
) -> None:
    """Check that a manifold has every mathematical property that `CHECKS` tests.

    Parameters
    ----------
    manifold : Manifold
        The manifold, which should be small: some thousand calls of its methods are
        made.
    max_length : float, optional
        The largest distance of random points from the origin. Between such points `exp`
        and `log` must be inverse to each other. By default 1, or 0.4 times the
        injectivity radius if that is less.
    seed : int
        The seed of the random points.

    Raises
    ------
    AssertionError
        If the manifold lacks a property, or a method raises. The message names the
        manifold, the property, and the size of the error.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> check_manifold(Sphere(2))
    """
    _require(
        isinstance(manifold, Manifold),
        f"{manifold!r} is not an instance of curvedp.geometry.Manifold",
    )
    for check in CHECKS:
        claim = (
            "Points can be computed: `from_coordinates` takes as many numbers as `dim` "
            "says, and `exp` takes the tangent vectors that it returns"
        )
        try:
            points = sample(
                manifold, np.random.default_rng(seed), _N_POINTS, max_length
            )
            claim = _stated_property(check)
            check(manifold, points)
        except AssertionError as error:
            raise AssertionError(
                f"{manifold!r} violates a property: {claim}. {error}"
            ) from error
        except Exception as error:
            raise AssertionError(
                f"{manifold!r} violates a property: {claim}. "
                f"{_failing_call(manifold, error)} "
                f"raised {type(error).__name__}: {error}"
            ) from error


def _stated_property(check: Callable[[Manifold, "Points"], None]) -> str:
    """Return the sentence that states the property which a function tests.

    Parameters
    ----------
    check : callable
        One of `CHECKS`. Its docstring, up to the parameters, states the property.

    Returns
    -------
    str
        The statement in one line, without its full stop.
    """
    statement, _, _ = inspect.cleandoc(check.__doc__ or "").partition(
        "\n\nParameters\n"
    )
    return " ".join(statement.split()).rstrip(".")


def _failing_call(M: Manifold, error: Exception) -> str:
    """Return the name of the method of a manifold that raised an exception.

    If methods called each other, the innermost one is named.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    error : Exception
        The exception, with its traceback.

    Returns
    -------
    str
        The name in backquotes; "the test" if no method of M is on the stack.
    """
    method_names = [
        frame.f_code.co_name
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_locals.get("self") is M
        and frame.f_code.co_name != "converting_kernel"  # of `accepts_array_like`
    ]
    return f"`{method_names[-1]}`" if method_names else "the test"


def default_max_length(M: Manifold) -> float:
    """Return the largest distance from the origin of the random points of `sample`.

    It is at most 1, at most 0.4 times the injectivity radius (so that `log` inverts
    `exp` between two such points), and at most 0.3 times the distance to a boundary (so
    that three steps of this length stay inside). It is at most 0.25 if the injectivity
    radius is stated as 0, which means that no positive one holds at every point.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.

    Returns
    -------
    float
        The distance, > 0.
    """
    length_inside_boundary = _SHARE_OF_BOUNDARY_DISTANCE * boundary_distance(M)
    if M.injectivity_radius > 0:
        length_invertible_by_log = _SHARE_OF_INJECTIVITY_RADIUS * M.injectivity_radius
        return min(
            _DEFAULT_MAX_LENGTH, length_invertible_by_log, length_inside_boundary
        )
    return min(_MAX_LENGTH_WITHOUT_RADIUS, length_inside_boundary)


def sample(
    M: Manifold, rng: np.random.Generator, n: int, max_length: float | None = None
) -> Points:
    """Draw n random points, tangent vectors and coordinates of bounded lengths.

    Parameters
    ----------
    M : Manifold
        The manifold.
    rng : numpy.random.Generator
        The generator of the draws.
    n : int
        The number of rows of every array.
    max_length : float, optional
        The largest length; `default_max_length(M)` by default.

    Returns
    -------
    dict of arrays
        Points ``p`` and ``q``, tangent vectors ``u`` and ``v`` at p, and the
        coordinates ``z`` of v. The points are drawn independently of each other. If
        arrays represent points up to a rotation (subspaces, shapes), q is therefore not
        aligned with p, and the tests detect a `log` that forgets to align them.
    """
    longest = default_max_length(M) if max_length is None else max_length

    def draw_coordinates() -> np.ndarray:
        """Return n coordinate vectors with uniform directions and lengths."""
        directions = rng.normal(size=(n, M.dim))
        lengths = longest * rng.uniform(0.1, 1, size=(n, 1))
        norms = np.linalg.norm(directions, axis=-1, keepdims=True)
        return np.asarray(directions * (lengths / norms))

    def draw_points() -> np.ndarray:
        """Return n points within the largest length of the origin."""
        velocities = M.from_coordinates(M.origin, draw_coordinates())
        return np.asarray(M.exp(M.origin, velocities))

    p = draw_points()
    q = draw_points()
    z = draw_coordinates()
    u = np.asarray(M.from_coordinates(p, draw_coordinates()))
    v = np.asarray(M.from_coordinates(p, z))
    return {"p": p, "q": q, "u": u, "v": v, "z": z}


# ---- the properties -------------------------------------------------------------------


def check_value(M: Manifold, points: Points) -> None:
    """A manifold is a frozen, hashable dataclass that equals its copies and its pickle.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    duplicate = copy.deepcopy(M)
    _require(duplicate == M, "a deep copy is not equal to the original")
    _require(hash(duplicate) == hash(M), "a deep copy has another hash")

    module = sys.modules.get(type(M).__module__)
    is_importable = vars(module).get(type(M).__qualname__) is type(M)
    if is_importable:
        unpickled = pickle.loads(pickle.dumps(M))
        _require(unpickled == M, "pickling and unpickling changes it")

    first_field = dataclasses.fields(M)[0].name  # type: ignore[arg-type]  # every manifold is a dataclass
    try:
        setattr(M, first_field, 7)
    except dataclasses.FrozenInstanceError:
        return
    raise AssertionError(f"its field {first_field!r} can be set: write frozen=True")


def check_name(M: Manifold, points: Points) -> None:
    """`parse_manifold` builds an equal manifold from the name of a manifold.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested. Only registered kinds and products have names.
    points : Points
        Not used.
    """
    has_own_kind = type(M).__dict__.get("kind") is not None
    if has_own_kind or len(M.factors) > 1:
        parsed = parse_manifold(M.name)
        _require(parsed == M, f"the name {M.name!r} is read back as {parsed!r}")


def check_constants(M: Manifold, points: Points) -> None:
    """The constants of a manifold do not contradict each other.

    The curvature bounds are in order, the convexity radius is at most the injectivity
    radius and at most π/(2√κ), and the origin is a point of the manifold.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    low, high = M.curvature_bounds
    _require(low <= high, f"curvature_bounds {(low, high)} are not in order")
    _require(
        M.dim > 1 or (low, high) == (0.0, 0.0),
        f"curves have no curvature: curvature_bounds must be (0, 0), not {(low, high)}",
    )
    constant_curvature = low if low == high else None
    _require(
        M.constant_curvature == constant_curvature,
        f"constant_curvature is {M.constant_curvature}, the bounds {(low, high)}",
    )

    _require(
        0 <= M.convexity_radius <= M.injectivity_radius,
        f"convexity_radius {M.convexity_radius} must lie between 0 and "
        f"injectivity_radius {M.injectivity_radius}",
    )
    if high > 0 and M.convexity_radius > 0:
        largest = math.pi / (2 * math.sqrt(high))
        _require(
            M.convexity_radius <= largest + 1e-15,
            f"convexity_radius {M.convexity_radius} is above π/(2√κ) = {largest}",
        )

    _require(
        M.origin.dtype == np.float64,
        f"the origin has dtype {M.origin.dtype}, but points are arrays of float64 "
        "(write complex numbers as real and imaginary parts on a last axis)",
    )
    _require(
        M.origin.shape == M.point_shape,
        f"the origin has shape {M.origin.shape}, but point_shape is {M.point_shape}",
    )
    _require_small(M.residual(M.origin), 1e-15, "`residual` of the origin")


def check_dimension(M: Manifold, points: Points) -> None:
    """`dim` is the rank of the frame and of the vectors that `to_tangent` returns.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p = points["p"][0]
    frame = np.asarray(M.from_coordinates(p, np.eye(M.dim))).reshape(M.dim, -1)
    frame_rank = np.linalg.matrix_rank(frame)
    _require(
        frame_rank == M.dim,
        f"`from_coordinates` of the {M.dim} unit vectors has rank {frame_rank}",
    )

    n_ambient = frame.shape[1]
    ambient = np.random.default_rng(1).normal(size=(3 * n_ambient, *M.point_shape))
    tangent = np.asarray(M.to_tangent(p, ambient)).reshape(-1, n_ambient)
    tangent_rank = np.linalg.matrix_rank(tangent, tol=1e-9)
    _require(
        tangent_rank == M.dim,
        f"dim is {M.dim}, but `to_tangent` makes vectors of rank {tangent_rank}",
    )


def check_exp_and_log(M: Manifold, points: Points) -> None:
    """exp and log are inverse to each other, and exp stays on the manifold.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p, q, v = points["p"], points["q"], points["v"]
    moved = M.exp(p, v)
    _require_small(_length(M, p, M.log(p, moved) - v), 1e-12, "log(p, exp(p, v)) − v")
    _require_small(
        M.dist(M.exp(p, M.log(p, q)), q),
        1e-12,
        "exp(p, log(p, q)), from q,",
    )
    _require_small(M.residual(moved), 1e-12, "`residual` of exp(p, v)")
    _require_equal(M.exp(p, np.zeros_like(v)), p, "exp(p, 0) and p", rtol=0, atol=1e-15)
    _require_small(_length(M, p, M.log(p, p)), 1e-14, "log(p, p)")


def check_metric(M: Manifold, points: Points) -> None:
    """dist is a metric, and dist(p, q) is the norm of log(p, q).

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p, q, v = points["p"], points["q"], points["v"]
    r = M.exp(p, v)
    p_to_q = np.asarray(M.dist(p, q))
    _require_equal(p_to_q, M.norm(p, M.log(p, q)), "dist(p, q) and |log(p, q)|")
    _require_equal(p_to_q, M.dist(q, p), "dist(p, q) and dist(q, p)")
    _require_equal(M.norm(p, v), M.dist(p, r), "|v| and dist(p, exp(p, v))")
    _require(bool(np.all(p_to_q > 0)), "two different points have distance 0")
    _require_small(M.dist(p, p), 1e-14, "dist(p, p)")

    detour = (M.dist(p, r) + M.dist(r, q)) * (1 + 1e-12)
    _require(
        bool(np.all(p_to_q <= detour)),
        "the triangle inequality fails: dist(p, q) > dist(p, r) + dist(r, q)",
    )


def check_coordinates(M: Manifold, points: Points) -> None:
    """Coordinates are a linear isometry, and `normal_coordinates` are those of log.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p, q, u, v, z = points["p"], points["q"], points["u"], points["v"], points["z"]
    y = np.asarray(M.to_coordinates(p, u))
    _require(
        y.shape == (len(p), M.dim),
        f"`to_coordinates` has shape {y.shape}, not {(len(p), M.dim)}",
    )

    _require_equal(
        M.inner(p, u, v),
        np.sum(y * z, axis=-1),
        "inner(p, u, v) and the product of the coordinates",
        rtol=0,
        atol=1e-13,
    )
    _require_equal(
        M.norm(p, v),
        np.linalg.norm(z, axis=-1),
        "|v| and the length of its coordinates",
        rtol=1e-13,
    )
    _require_equal(
        M.to_coordinates(p, v), z, "coordinates before and after", rtol=0, atol=1e-13
    )
    _require_equal(
        M.from_coordinates(p, 2 * y - 3 * z),
        2 * u - 3 * v,
        "`from_coordinates` of 2y − 3z and 2u − 3v",
        rtol=0,
        atol=1e-12,
    )

    _require_equal(
        M.normal_coordinates(p, q),
        M.to_coordinates(p, M.log(p, q)),
        "`normal_coordinates` and the coordinates of log",
        rtol=0,
        atol=1e-13,
    )
    _require_small(
        M.dist(M.from_normal_coordinates(p, z), M.exp(p, v)),
        1e-13,
        "`from_normal_coordinates`, from exp,",
    )
    _require_orthonormal_frames(M, p)


def _require_orthonormal_frames(M: Manifold, p: np.ndarray) -> None:
    """Check that the unit coordinate vectors are orthonormal tangent vectors.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    p : array of shape (n, *point_shape)
        Points.
    """
    frame = M.from_coordinates(np.expand_dims(p, 1), np.eye(M.dim))
    # The inner product of each pair of vectors, in an array of shape (n, dim, dim).
    first = np.expand_dims(frame, 2)
    second = np.expand_dims(frame, 1)
    inner_products = M.inner(np.expand_dims(p, (1, 2)), first, second)
    _require_equal(
        inner_products,
        np.broadcast_to(np.eye(M.dim), inner_products.shape),
        "inner products of the frame and those of an orthonormal one",
        rtol=0,
        atol=1e-13,
    )


def check_small_distances(M: Manifold, points: Points) -> None:
    """Distances and logarithms are accurate down to lengths of 1e-15.

    Otherwise a computed sensitivity could be 0.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    directions = points["z"] / np.linalg.norm(points["z"], axis=-1, keepdims=True)
    point_rounding = 4e-16 * math.sqrt(math.prod(M.point_shape))
    for scale in (1e-15, 1e-12, 1e-8, 1e-4):
        allowed = 1e-12 * scale + point_rounding
        z = scale * directions
        q = M.exp(M.origin, M.from_coordinates(M.origin, z))
        _require_small(
            np.abs(M.dist(M.origin, q) - scale), allowed, f"a distance of {scale:g}"
        )
        recovered = np.asarray(M.to_coordinates(M.origin, M.log(M.origin, q)))
        _require_small(
            np.linalg.norm(recovered - z, axis=-1),
            allowed,
            f"the coordinates of a logarithm of length {scale:g}",
        )


def check_tangent_vectors(M: Manifold, points: Points) -> None:
    """Methods that return tangent vectors return vectors tangent to the manifold.

    `to_tangent` does not change these vectors, and a short step of length h along one
    ends within O(h²) of the manifold.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p, q, v = points["p"], points["q"], points["v"]
    ambient = np.random.default_rng(2).normal(size=p.shape)
    tangent_vectors = {
        "from_coordinates(p, z)": (p, v),
        "log(p, q)": (p, M.log(p, q)),
        "transport(p, q, v)": (q, M.transport(p, q, v)),
        "to_tangent(p, x)": (p, M.to_tangent(p, ambient)),
    }
    for name, (footpoint, vector) in tangent_vectors.items():
        scale = max(1.0, float(np.max(np.abs(vector))))
        _require_equal(
            M.to_tangent(footpoint, vector),
            vector,
            f"{name} and its tangent part",
            rtol=0,
            atol=1e-13 * scale,
        )

    for step in (1e-4, 1e-5):
        _require_small(
            M.residual(p + step * v),
            10 * step**2 + 1e-14,
            f"`residual` of p + {step:g}·v",
        )


def check_projection(M: Manifold, points: Points) -> None:
    """`project` maps every array to the manifold, and leaves points where they are.

    `from_record` does the same with arrays near the manifold.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p = points["p"]
    rng = np.random.default_rng(3)
    _require_small(M.dist(M.project(p), p), 1e-14, "the distance of project(p) to p")
    _require_small(
        M.dist(M.from_record(p), p), 1e-14, "the distance of from_record(p) to p"
    )

    ambient = rng.normal(size=(50, *M.point_shape))
    _require_small(M.residual(M.project(ambient)), 1e-13, "`residual` of `project`")
    zero = np.zeros(M.point_shape)
    _require_small(M.residual(M.project(zero)), 1e-13, "`residual` of project(0)")

    for kernel in (M.project, M.from_record):
        disturbed = p + 1e-7 * rng.normal(size=p.shape)
        _require_small(
            M.dist(kernel(disturbed), p),
            1e-5,
            f"the distance of `{kernel.__name__}` of a point off by 1e-7 to it",
        )


def check_project_to_ball(M: Manifold, points: Points) -> None:
    """`project_to_ball` maps every record, even NaN, into the ball without a warning.

    The result for one record does not depend on the other records.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    rng = np.random.default_rng(4)
    radius = 0.4 * default_max_length(M)
    center = points["p"][0]
    constants = (np.nan, np.inf, 1e308, -1e308, 0.0, 1e-320, -1.0)
    strange_records = [np.full(M.point_shape, constant) for constant in constants]
    for exponent in (-300, -10, 3, 100, 300):
        strange_records.append(rng.normal(size=M.point_shape) * 10.0**exponent)
    records = np.concatenate([np.stack(strange_records), points["q"]])

    with np.errstate(all="raise"):
        inside = np.asarray(project_to_ball(M, center, radius, records))
    _require(
        bool(np.all(np.isfinite(inside))),
        "a record in the ball is not finite",
    )
    distances = np.asarray(M.dist(center, inside))
    _require(
        bool(np.all(distances <= radius)),
        f"a record is at distance {np.max(distances)} of the center, beyond {radius}",
    )
    # The first two strange records are all NaN and all infinity.
    points_of_nonfinite_records = inside[:2]
    _require_equal(
        points_of_nonfinite_records,
        np.stack([center, center]),
        "the points to which NaN and infinity are mapped, compared with the center",
        rtol=0,
        atol=0,
    )

    order = rng.permutation(len(records))
    _require_equal(
        project_to_ball(M, center, radius, records[order]),
        inside[order],
        "records in the ball before and after a change of their order",
        rtol=0,
        atol=1e-13,
    )


def check_residual(M: Manifold, points: Points) -> None:
    """`residual` is positive off the manifold, and is not small for NaN.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    with np.errstate(all="ignore"):
        residual_of_nan = M.residual(np.full(M.point_shape, np.nan))
    _require(not residual_of_nan <= 1, f"`residual` of NaN is {residual_of_nan}")

    disturbance = 0.01 * np.random.default_rng(6).normal(size=points["p"].shape)
    x = points["p"] + disturbance
    point_axes = tuple(range(1, x.ndim))
    changes_by_projection = np.max(np.abs(M.project(x) - x), axis=point_axes)
    is_off = changes_by_projection > _SMALLEST_CHANGE_OFF_MANIFOLD
    residuals = np.asarray(M.residual(x))[is_off]
    _require(
        bool(np.all(residuals > _SMALLEST_RESIDUAL_OFF_MANIFOLD)),
        "points off the manifold have no residual",
    )


def check_missing_values(M: Manifold, points: Points) -> None:
    """A row of NaN gives a row that is not finite, and changes no other row.

    No method warns. `project` and `from_record` may return a point for it.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    may_repair = ("project", "from_record")
    for name, letters, kernel in batched_methods(M):
        complete = [np.array(points[letter]) for letter in letters]
        with_gap = [np.array(points[letter]) for letter in letters]
        for array in with_gap:
            array[0] = np.nan

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = np.asarray(kernel(*with_gap))
        _require(
            name in may_repair or not bool(np.all(np.isfinite(result[0]))),
            f"`{name}` of NaN is finite: {result[0]}",
        )
        _require_equal(
            result[1:],
            np.asarray(kernel(*complete))[1:],
            f"`{name}` beside a row of NaN and without one",
            rtol=1e-11,
            atol=1e-12,
        )


def check_transport(M: Manifold, points: Points) -> None:
    """`transport` is a linear isometry that maps log(p, q) to −log(q, p).

    The transport from a point to itself is the identity.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    p, q, u, v = points["p"], points["q"], points["u"], points["v"]
    u_at_q = M.transport(p, q, u)
    v_at_q = M.transport(p, q, v)
    _require_equal(
        M.inner(q, u_at_q, v_at_q),
        M.inner(p, u, v),
        "inner products before and after `transport`",
        rtol=0,
        atol=1e-12,
    )
    _require_equal(
        M.norm(q, u_at_q), M.norm(p, u), "lengths before and after `transport`"
    )

    combination = M.transport(p, q, 2 * u - 3 * v)
    _require_small(
        _length(M, q, combination - 2 * u_at_q + 3 * v_at_q),
        1e-12,
        "`transport` of 2u − 3v and the same combination afterwards",
    )
    _require_small(_length(M, p, M.transport(p, p, v) - v), 1e-12, "transport(p, p, v)")
    arrival = M.transport(p, q, M.log(p, q))
    _require_small(
        _length(M, q, arrival + M.log(q, p)),
        1e-12,
        "`transport` of log(p, q), against −log(q, p),",
    )


def check_parallel_transport(M: Manifold, points: Points) -> None:
    """On a symmetric space, `transport` agrees with one step of the pole ladder.

    The pole ladder is a construction from geodesics. On symmetric spaces it is exactly
    parallel transport (Pennec 2018).

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    if not M.is_symmetric:
        return
    p, q, v = points["p"], points["q"], points["v"] / 2
    middle = M.exp(p, M.log(p, q) / 2)
    reflected = M.exp(middle, -M.log(middle, M.exp(p, v)))
    ladder = -M.log(q, reflected)
    _require_small(
        _length(M, q, M.transport(p, q, v) - ladder),
        1e-11,
        "`transport`, against the pole ladder,",
    )


def check_shortest_geodesics(M: Manifold, points: Points) -> None:
    """Geodesics from the origin are shortest up to the `injectivity_radius`.

    The test follows the vectors of the frame and random directions.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    random_directions = points["z"] / np.linalg.norm(
        points["z"], axis=-1, keepdims=True
    )
    directions = np.concatenate([np.eye(M.dim), random_directions])
    # Beyond length 7, hyperbolic distances lose their digits in float64.
    longest = min(M.injectivity_radius, 0.9 * boundary_distance(M), 7.0)
    for fraction in (0.5, 0.7, 0.98):
        length = fraction * longest
        q = M.exp(M.origin, M.from_coordinates(M.origin, length * directions))
        _require_small(
            np.abs(M.dist(M.origin, q) - length),
            1e-6 * length,
            f"the distance after a geodesic of length {length:g}",
        )


def check_broadcasting(M: Manifold, points: Points) -> None:
    """Kernels broadcast over leading axes, and the result of a row depends on it alone.

    Arguments with no rows give results with no rows.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    # Each argument is passed as a single point, as a row of points and as a column. All
    # combinations are tried, so all tangent vectors must belong to the same point.
    footpoint = points["p"][0]
    arguments = {
        "p": np.broadcast_to(footpoint, points["p"].shape),
        "q": points["q"],
        "u": M.from_coordinates(footpoint, M.to_coordinates(points["p"], points["u"])),
        "v": M.from_coordinates(footpoint, points["z"]),
        "z": points["z"],
    }
    for name, letters, kernel in batched_methods(M):
        rows = [arguments[letter] for letter in letters]
        empty = kernel(*(row[:0] for row in rows))
        _require(empty.shape[0] == 0, f"`{name}` of no rows has shape {empty.shape}")
        result_alone = cache(partial(_evaluate_alone, kernel, rows))
        for batches in itertools.product([(), (3,), (2, 1)], repeat=len(letters)):
            _check_one_broadcast(name, kernel, rows, batches, result_alone)


def _check_one_broadcast(
    name: str,
    kernel: Callable[..., Any],
    rows: list[np.ndarray],
    batches: tuple[tuple[int, ...], ...],
    result_alone: Callable[..., np.ndarray],
) -> None:
    """Check that one call of a kernel with many rows equals calls with single rows.

    A kernel is a method of the manifold that acts on many points at once.

    Parameters
    ----------
    name : str
        The name of the kernel, for messages.
    kernel : callable
        A method of the manifold, such as `exp`.
    rows : list of arrays
        For each argument of the kernel, an array of rows to choose from.
    batches : tuple of shapes
        For each argument, the leading shape that it gets in the batched call.
    result_alone : callable
        Takes the number of one row for each argument, and returns the result of the
        kernel for these rows alone.
    """
    # Number the rows that each argument uses, in the shape of its batch.
    row_numbers = [np.arange(math.prod(batch)).reshape(batch) for batch in batches]
    inputs = [
        np.asarray(argument_rows[numbers])
        for argument_rows, numbers in zip(rows, row_numbers, strict=True)
    ]
    result = np.asarray(kernel(*inputs))

    batch_shape = np.broadcast_shapes(*batches)
    _require(
        result.shape[: len(batch_shape)] == batch_shape,
        f"`{name}` with batches {batches} gave an array of shape {result.shape}",
    )
    single_results = []
    for combination in np.broadcast(*row_numbers):
        indices = [int(index) for index in combination]
        single_results.append(result_alone(*indices))
    expected_shape = (*batch_shape, *single_results[0].shape)
    _require_equal(
        result,
        np.reshape(single_results, expected_shape),
        f"`{name}` with batches {batches} and one row at a time",
        rtol=1e-11,
        atol=1e-12,
    )


def _evaluate_alone(
    kernel: Callable[..., Any], rows: list[np.ndarray], *indices: int
) -> np.ndarray:
    """Return the result of a manifold's method for one row of each argument.

    Parameters
    ----------
    kernel : callable
        A method of the manifold, such as `exp`.
    rows : list of arrays
        For each argument of the kernel, an array of rows to choose from.
    *indices : int
        For each argument, the index of its row.

    Returns
    -------
    array
        The result, without a leading axis.
    """
    arguments = [
        np.array(row[index], order="C")
        for row, index in zip(rows, indices, strict=True)
    ]
    return np.asarray(kernel(*arguments))


def check_curvature(M: Manifold, points: Points) -> None:
    """Sectional curvatures lie within `curvature_bounds`.

    The curvatures are estimated from distances, for random planes and for the planes of
    a frame. On a symmetric space they must agree with `jacobi_operator`; on a
    homogeneous space their sum over a frame must be the same at two points.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    if M.dim == 1:
        return
    p = points["p"][0]
    low, high = M.curvature_bounds
    frame_planes = _planes_of_frame(M.dim)
    random_vectors = np.random.default_rng(5).normal(size=(40, M.dim, 2))
    random_planes = np.linalg.qr(random_vectors)[0]
    planes = np.concatenate([random_planes, frame_planes])

    step = _curvature_step(points)
    curvatures = sectional_curvatures(M, p, planes, step)
    _require(
        low - 1e-4 <= np.min(curvatures) and np.max(curvatures) <= high + 1e-4,
        f"found {np.min(curvatures)} to {np.max(curvatures)}, stated is {(low, high)}",
    )
    if M.is_homogeneous:
        # The sum over the planes of a frame is half the scalar curvature, which is the
        # same at every point of a homogeneous space.
        at_p = np.sum(curvatures[len(random_planes) :])
        at_origin = np.sum(sectional_curvatures(M, M.origin, frame_planes, step))
        _require(
            abs(at_p - at_origin) <= 2e-4 * len(frame_planes),
            f"not homogeneous: the scalar curvature is {2 * at_p} at one point and "
            f"{2 * at_origin} at the origin",
        )
    if M.is_symmetric:
        first, second = planes[..., 0], planes[..., 1]
        operator = M.jacobi_operator(p, M.from_coordinates(p, second))
        _require_equal(
            np.einsum("ni,nij,nj->n", first, operator, first),
            curvatures,
            "curvatures by `jacobi_operator` and by distances",
            rtol=1e-7,
            atol=1e-4,
        )


def _planes_of_frame(dim: int) -> np.ndarray:
    """Return the coordinate planes: every pair of unit coordinate vectors.

    Parameters
    ----------
    dim : int
        The dimension of the manifold.

    Returns
    -------
    array of shape (dim·(dim − 1)/2, dim, 2)
        Each plane is given by two columns.
    """
    unit_vectors = np.eye(dim)
    pairs = itertools.combinations(range(dim), 2)
    return np.stack([unit_vectors[:, list(pair)] for pair in pairs])


def _curvature_step(points: Points) -> float:
    """Return the step with which curvatures are estimated from distances.

    Parameters
    ----------
    points : Points
        The random points of the test, whose longest coordinates set the scale.
    """
    return 0.04 * float(np.max(np.linalg.norm(points["z"], axis=-1)))


def check_jacobi_spectrum(M: Manifold, points: Points) -> None:
    """The Jacobi operator of every unit velocity has the stated `jacobi_spectrum`.

    The spectrum consists of the nonzero eigenvalues with their multiplicities. The
    operator of a random velocity is estimated from distances; the velocity is
    orthogonal to a Euclidean factor, if there is one.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    points : Points
        Random points p and q, tangent vectors u and v at p, and coordinates z of v.
    """
    if M.jacobi_spectrum is None or M.dim == 1:
        return
    multiplicities = [multiplicity for _, multiplicity in M.jacobi_spectrum]
    _require(
        sum(multiplicities) < M.dim,
        f"multiplicities {multiplicities} add up to more than dim − 1 = {M.dim - 1}",
    )
    stated_curvatures: list[float] = []
    for curvature, multiplicity in M.jacobi_spectrum:
        stated_curvatures += [curvature] * multiplicity
    # All other eigenvalues across the velocity are 0.
    stated_curvatures += [0.0] * (M.dim - 1 - len(stated_curvatures))

    p = points["p"][0]
    rng = np.random.default_rng(7)
    flat_directions = euclidean_factor(M, p)
    for _ in range(2):
        velocity = rng.normal(size=M.dim)
        velocity -= velocity @ flat_directions.T @ flat_directions
        estimated = _estimated_jacobi_eigenvalues(
            M, p, velocity, _curvature_step(points)
        )
        _require_equal(
            estimated,
            np.sort(stated_curvatures),
            f"the eigenvalues from distances, {np.round(estimated, 3)}, and those of "
            f"`jacobi_spectrum`, {M.jacobi_spectrum},",
            rtol=0,
            atol=1e-3,
        )


def _estimated_jacobi_eigenvalues(
    M: Manifold, p: Any, velocity: np.ndarray, step: float
) -> np.ndarray:
    """Estimate the eigenvalues of the Jacobi operator R_v of a velocity v, sorted.

    They are curvatures, estimated from distances alone. R_v acts on the vectors
    orthogonal to v. Let eᵢ be an orthonormal basis of them, and K(v, w) the sectional
    curvature of the plane of v and w. Then

        ⟨R_v eᵢ, eᵢ⟩ = K(v, eᵢ),
        ⟨R_v eᵢ, eⱼ⟩ = K(v, (eᵢ + eⱼ)/√2) − (K(v, eᵢ) + K(v, eⱼ))/2.

    Parameters
    ----------
    M : Manifold
        The manifold.
    p : array of shape point_shape
        The point of the velocity.
    velocity : array of shape (dim,)
        The coordinates of v; the length has no effect.
    step : float
        The length of the steps of `sectional_curvatures`.

    Returns
    -------
    array of shape (dim − 1,)
        The eigenvalues.
    """
    # An orthonormal basis whose first vector is along the velocity.
    spanning_columns = np.column_stack([velocity, np.eye(M.dim)])
    basis = np.linalg.qr(spanning_columns)[0].T
    v = basis[0]
    across = basis[1:]
    rows, columns = np.triu_indices(len(across))
    sums = across[rows] + across[columns]
    directions = sums / np.linalg.norm(sums, axis=-1, keepdims=True)
    pairs = np.stack([np.broadcast_to(v, directions.shape), directions], axis=-1)

    operator = np.zeros((len(across), len(across)))
    operator[rows, columns] = sectional_curvatures(M, p, pairs, step)
    diagonal = np.diag(operator)
    mean_of_pair = np.add.outer(diagonal, diagonal) / 2
    above_diagonal = np.triu(operator - mean_of_pair, 1)
    symmetric = above_diagonal + above_diagonal.T + np.diag(diagonal)
    return np.asarray(np.linalg.eigvalsh(symmetric))


def sectional_curvatures(
    M: Manifold, p: Any, pairs: np.ndarray, step: float
) -> np.ndarray:
    """Estimate sectional curvatures at p from distances alone.

    For orthonormal tangent vectors u, v at p with sectional curvature K,

        d²(exp_p(t·u), exp_p(t·v)) = 2t² − K·t⁴/3 + O(t⁵).

    The mean over ±t removes the odd terms and Richardson extrapolation from t/2 and t
    removes the next even one, so that the error is O(t⁴).

    Parameters
    ----------
    M : Manifold
        The manifold.
    p : array of shape point_shape
        The point.
    pairs : array of shape (n, dim, 2)
        The coordinates of n orthonormal pairs: u in the first column, v in the second.
    step : float
        The length t.

    Returns
    -------
    array of shape (n,)
        The estimates of K.
    """
    u = M.from_coordinates(p, pairs[..., 0])
    v = M.from_coordinates(p, pairs[..., 1])

    def estimate(t: float) -> np.ndarray:
        """Return the estimate of K from the mean over steps of t and of −t.

        Parameters
        ----------
        t : float
            The length of the steps.
        """
        forward = np.asarray(M.dist(M.exp(p, t * u), M.exp(p, t * v))) ** 2
        backward = np.asarray(M.dist(M.exp(p, -t * u), M.exp(p, -t * v))) ** 2
        return np.asarray(3 * (2 * t**2 - (forward + backward) / 2) / t**4)

    return np.asarray((4 * estimate(step / 2) - estimate(step)) / 3)


CHECKS: tuple[Callable[[Manifold, Points], None], ...] = (
    check_value,
    check_name,
    check_constants,
    check_dimension,
    check_exp_and_log,
    check_metric,
    check_coordinates,
    check_small_distances,
    check_tangent_vectors,
    check_projection,
    check_project_to_ball,
    check_residual,
    check_missing_values,
    check_transport,
    check_parallel_transport,
    check_shortest_geodesics,
    check_broadcasting,
    check_curvature,
    check_jacobi_spectrum,
)
"""The laws, in the order in which they are tried; the docstring of each states it."""


def _require(condition: bool, message: str) -> None:
    """Raise `AssertionError` unless the condition holds, even under ``python -O``.

    Parameters
    ----------
    condition : bool
        The value that the property states.
    message : str
        What is wrong, for the author of the manifold.
    """
    if not condition:
        raise AssertionError(message)


def _require_small(errors: Any, bound: float, quantity: str) -> None:
    """Raise `AssertionError` if an error is NaN or larger than a bound.

    Parameters
    ----------
    errors : array
        The errors.
    bound : float
        The largest error that is allowed.
    quantity : str
        What has the error, for the message.
    """
    worst = float(np.max(np.asarray(errors)))
    _require(
        worst <= bound, f"{quantity} is off by {worst:.3g}, allowed is {bound:.3g}"
    )


def _require_equal(
    actual: Any, expected: Any, quantity: str, rtol: float = 1e-12, atol: float = 0.0
) -> None:
    """Raise `AssertionError` unless |actual − expected| ≤ atol + rtol·|expected|.

    NaN equals NaN and nothing else.

    Parameters
    ----------
    actual, expected : arrays
        The two sides, of the same shape.
    quantity : str
        The names of both sides, for the message.
    rtol, atol : float
        The relative and the absolute tolerance.
    """
    actual = np.asarray(actual)
    expected = np.asarray(expected)
    _require(
        actual.shape == expected.shape,
        f"{quantity} have different shapes: {actual.shape} and {expected.shape}",
    )
    agrees = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    if not np.all(agrees):
        with np.errstate(all="ignore"):
            worst = np.max(np.abs(actual - expected))
        raise AssertionError(f"{quantity} differ by up to {worst:.3g}")


def _length(M: Manifold, p: Any, v: Any) -> np.ndarray:
    """Return the lengths of tangent vectors v at points p, from their coordinates.

    The tests use it instead of the manifold's `norm`, so that a wrong `norm` cannot
    hide a wrong vector.

    Parameters
    ----------
    M : Manifold
        The manifold that is tested.
    p : array of shape (..., *point_shape)
        The points.
    v : array of shape (..., *point_shape)
        The tangent vectors.

    Returns
    -------
    array of shape (...)
        Nonnegative lengths.
    """
    return np.asarray(np.linalg.norm(np.asarray(M.to_coordinates(p, v)), axis=-1))
