"""From the rays of a two-point homogeneous space to the privacy profile of its isotropic laws."""

from curvedp.errors import ParameterError
from curvedp.laws.radial import Kind, Rays
from curvedp.privacy.certify import certified_delta
from curvedp.privacy.constant_curvature import constant_curvature_profile
from curvedp.privacy.profile import PrivacyProfile
from curvedp.privacy.projective import ProjectiveProfile
from curvedp.privacy.rotations import certified_rotation_delta


def isotropic_profile(kind: Kind, rays: Rays, scale: float, sensitivity: float) -> PrivacyProfile:
    """The exact profile: of constant curvature, or of a real or complex projective space."""
    if rays.curvature is not None:
        return constant_curvature_profile(kind, rays.curvature, rays.dim, scale, sensitivity)
    least = min(curvature for curvature, _ in rays.roots)
    field = "real" if len(rays.roots) == 1 else "complex"
    return ProjectiveProfile(kind, field, rays.dim, least, scale, sensitivity)


def isotropic_certified_delta(
    kind: Kind, rays: Rays, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """Rigorous bounds on δ(eps)."""
    if rays.curvature is not None:
        return certified_delta(kind, rays.curvature, rays.dim, scale, sensitivity, eps)
    if len(rays.roots) == 1 and rays.dim == 3:
        return certified_rotation_delta(kind, rays.roots[0][0], scale, sensitivity, eps)
    raise ParameterError("certified bounds on projective spaces are for dimension 3, as Rotations(3); use the profile")
