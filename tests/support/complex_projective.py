"""Complex projective space as a stranger writes it: points are representatives of lines.

A point is any unit vector of a complex line, with real and imaginary parts on a last
axis. Kernels first turn the phase of one representative to that of the other.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from curvedp.geometry import Manifold


def to_complex(x):
    return x[..., 0] + 1j * x[..., 1]


def to_real(z):
    return np.stack([z.real, z.imag], axis=-1)


def hermitian_product(a, b):
    """⟨a, b⟩ = Σ conj(aᵢ)·bᵢ, with a last axis of length one."""
    return np.sum(np.conj(a) * b, axis=-1, keepdims=True)


def hermitian_length(a):
    return np.sqrt(np.sum(np.abs(a) ** 2, axis=-1, keepdims=True))


def unit_phase(a):
    """a/|a|, 1 at 0."""
    modulus = np.abs(a)
    return quiet_quotient(
        np.where(modulus == 0, 1.0, a), np.where(modulus == 0, 1.0, modulus)
    )


def quiet_quotient(a, b):
    """Complex division warns of NaN, which a record may be; the others' do not."""
    with np.errstate(invalid="ignore"):
        return a / b


@dataclass(frozen=True)
class ComplexProjective(Manifold):
    """Lines of ℂ^{n+1} with the Fubini–Study metric: curvature between 1 and 4."""

    kind: ClassVar[str | None] = "test-complex-projective"
    n: int

    @property
    def dim(self):
        return 2 * self.n

    @property
    def point_shape(self):
        return (self.n + 1, 2)

    @property
    def origin(self):
        return to_real(np.eye(1, self.n + 1)[0].astype(complex))

    @property
    def curvature_bounds(self):
        return (4.0, 4.0) if self.n == 1 else (1.0, 4.0)

    @property
    def injectivity_radius(self):
        return math.pi / 2

    @property
    def is_homogeneous(self):
        return True

    @property
    def jacobi_spectrum(self):
        return ((4.0, 1), (1.0, 2 * self.n - 2)) if self.n > 1 else ((4.0, 1),)

    def exp(self, p, v):
        p, v = to_complex(p), to_complex(v)
        length = hermitian_length(v)
        return to_real(np.cos(length) * p + np.sinc(length / math.pi) * v)

    def _aligned(self, p, q):
        """q times the phase that makes ⟨p, q⟩ positive."""
        return q * np.conj(unit_phase(hermitian_product(p, q)))

    def log(self, p, q):
        p, q = to_complex(p), to_complex(q)
        return to_real(self._horizontal_log(p, self._aligned(p, q)))

    def _horizontal_log(self, p, q):
        difference = q - p
        normal = difference - hermitian_product(p, difference) * p
        normal = normal - hermitian_product(p, normal) * p
        sine = hermitian_length(normal)
        angle = np.arctan2(sine, hermitian_product(p, q).real)
        stretch = angle / np.where(sine == 0, 1.0, sine)
        return np.where(sine == 0, 1.0, stretch) * normal

    def inner(self, p, u, v):
        return np.sum(u * v + 0 * p, axis=(-2, -1))

    def transport(self, p, q, v):
        p, q, v = to_complex(p), to_complex(q), to_complex(v)
        moved = self._aligned(p, q)
        phase = unit_phase(hermitian_product(p, q))
        return to_real(phase * self._parallel(p, moved, v))

    def _parallel(self, p, q, v):
        """Parallel transport along the geodesic between aligned representatives."""
        velocity = self._horizontal_log(p, q)
        length = hermitian_length(velocity)
        unit = quiet_quotient(velocity, np.where(length == 0, 1.0, length))
        along = hermitian_product(unit, v)
        turned = np.cos(length) * unit - np.sin(length) * p
        return np.where(length == 0, v, v + along * (turned - unit))

    def project(self, x):
        z = to_complex(x)
        length = hermitian_length(z)
        return np.where(
            length[..., None] == 0,
            self.origin,
            to_real(quiet_quotient(z, np.where(length == 0, 1.0, length))),
        )

    def to_tangent(self, p, x):
        p, x = to_complex(p), to_complex(x)
        x = x - hermitian_product(p, x) * p
        return to_real(x - hermitian_product(p, x) * p)

    def residual(self, p):
        return np.abs(hermitian_length(to_complex(p))[..., 0] - 1)

    def _reflect(self, p, w):
        """The unitary reflection that swaps the line of p with that of the origin."""
        axis = np.array(p + 0 * w)
        axis[..., :1] = axis[..., :1] + unit_phase(axis[..., :1])
        share = quiet_quotient(
            hermitian_product(axis, w), hermitian_product(axis, axis)
        )
        return w - 2 * axis * share

    def from_coordinates(self, p, z):
        w = z[..., 0::2] + 1j * z[..., 1::2]
        w = np.concatenate([np.zeros_like(w[..., :1]), w], axis=-1)
        return to_real(self._reflect(to_complex(p), w))

    def to_coordinates(self, p, v):
        w = self._reflect(to_complex(p), to_complex(v))[..., 1:]
        return to_real(w).reshape(*w.shape[:-1], self.dim)
