"""What profiles of isotropic noise share, on any space: the noise is Gaussian or Laplace,
and its privacy loss is a radial integral or has a closed form. The integral is computed
with enough quadrature nodes, and tabulated.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.space_form import Kind, SpaceFormLoss
from curvedp.privacy.loss.table import TabulatedLossLaw
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile

_QUADRATURE_NODES_FOR_SEARCH = 128  # for quick estimates during a calibration
_MAX_QUADRATURE_NODES = 2048


@dataclass(frozen=True)
class RadialProfile(PrivacyProfile):
    """The profile of isotropic noise, from a radial integral or a closed form.

    Parameters
    ----------
    kind : str
        'gaussian' (density ∝ exp(−d²/2s²), with the distance d from the center and the
        scale s) or 'laplace' (density ∝ exp(−d/s)).
    """

    kind: Kind

    # Whether δ(ε) and the other parameters have closed forms.
    is_closed_form: ClassVar[bool] = False

    @property
    @abstractmethod
    def default_loss_law(self) -> PrivacyLossLaw:
        """The distribution of the privacy loss, computed with few quadrature nodes.

        The number of nodes is the default of the class of the law. It may be too small
        for accurate tails; `loss_law` has enough nodes.
        """

    @cached_property
    def loss_law(self) -> PrivacyLossLaw:
        """The distribution of the privacy loss, with enough quadrature nodes.

        It is `default_loss_law` after the number of nodes was doubled until twice as
        many nodes gave the same tail integrals. Each of its tails is computed by
        quadrature; `loss_table` interpolates them and is faster.
        """
        return self.default_loss_law.with_enough_nodes()

    @cached_property
    def loss_table(self) -> TabulatedLossLaw:
        """A table of the distribution of the privacy loss, built on first access.

        If quadrature errors are too large for a table, the number of quadrature nodes
        is doubled.
        """
        law = self.loss_law

        # A table refuses tails that are not smooth enough; more nodes make them
        # smoother.
        while True:
            try:
                return TabulatedLossLaw(law)
            except ArithmeticError:
                if not isinstance(law, SpaceFormLoss):
                    raise
                if law.order > _MAX_QUADRATURE_NODES:
                    raise
                law = replace(law, order=2 * law.order)

    @cached_property
    def rao(self) -> float:
        """The Rao distance: the sensitivity times √(Fisher information), rounded up."""
        return float(round_up(self.loss_law.loss_scale, RELATIVE_ERROR))

    @property
    def quadrature_law(self) -> PrivacyLossLaw | None:
        """The distribution of the privacy loss for quick estimates, or None.

        It is `default_loss_law` with only 128 quadrature nodes. It is None if no
        quadrature is needed, because there is a closed form.
        """
        law = None if self.is_closed_form else self.default_loss_law
        if not isinstance(law, SpaceFormLoss):
            return None
        return replace(law, order=_QUADRATURE_NODES_FOR_SEARCH)

    @property
    def tabulated_mu(self) -> float | None:
        """A quick lower bound on the smallest μ of Gaussian DP.

        It takes into account only the ε in the table of the privacy loss. None if there
        is a closed form.
        """
        return None if self.is_closed_form else self._mu_in_table

    @property
    def delta_vanishes_at_finite_scale(self) -> bool:
        """Whether δ(ε) is 0 for a large enough finite scale: True for Laplace noise.

        Its privacy loss is at most sensitivity/scale.
        """
        return self.kind == "laplace"

    @property
    def noise_name(self) -> str:
        """'Gaussian' or 'Laplace', for messages."""
        return self.kind.capitalize()
