"""scikit-learn estimators whose fitted attributes may be published."""

from curvedp.estimators.dispersion import PrivateDispersion
from curvedp.estimators.frechet_mean import PrivateFrechetMean
from curvedp.estimators.frechet_median import PrivateFrechetMedian
from curvedp.estimators.geodesic_regression import PrivateGeodesicRegression
from curvedp.estimators.kmeans import PrivateKMeans
from curvedp.estimators.mdm import PrivateMDM
from curvedp.estimators.pca import PrivatePCA
from curvedp.estimators.prototypes import PrivatePrototypes
from curvedp.estimators.recenter import PrivateRecenter
from curvedp.estimators.softmax import PrivateSoftmax
from curvedp.estimators.synthesizer import PrivateSynthesizer
from curvedp.estimators.tangent_pca import PrivateTangentPCA
from curvedp.estimators.tangent_space import PrivateTangentSpace

__all__ = [
    "PrivateDispersion",
    "PrivateFrechetMean",
    "PrivateFrechetMedian",
    "PrivateGeodesicRegression",
    "PrivateKMeans",
    "PrivateMDM",
    "PrivatePCA",
    "PrivatePrototypes",
    "PrivateRecenter",
    "PrivateSoftmax",
    "PrivateSynthesizer",
    "PrivateTangentPCA",
    "PrivateTangentSpace",
]
