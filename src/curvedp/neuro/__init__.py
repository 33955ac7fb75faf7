"""Releases for neuroscience, from the files that its programs write.
Group connectomes from BIDS and XCP-D folders, mean diffusion tensors of the regions of
an atlas, and starter kits with which a new user of a brain-computer interface
calibrates without anyone's trials. Each is one private mean of one vector per person.
`gmean` and `gmedian` go by the names of pyRiemann's metrics.
"""

from curvedp.neuro.connectome import (
    ConnectomePlan,
    PrivateConnectome,
    fisher_z,
    plan_connectome,
)
from curvedp.neuro.metrics import gmean, gmedian, space_of_metric
from curvedp.neuro.pictures import plot_connectome, plot_regions, save_figure
from curvedp.neuro.regions import (
    PrivateRegionTensors,
    RegionRow,
    RegionTensors,
    read_region_tensors,
)
from curvedp.neuro.relmat import (
    Connectomes,
    networks_of,
    read_connectomes,
    read_relmat,
    write_relmat,
)
from curvedp.neuro.starter_kit import PrivateStarterKit

__all__ = [
    "ConnectomePlan",
    "Connectomes",
    "PrivateConnectome",
    "PrivateRegionTensors",
    "PrivateStarterKit",
    "RegionRow",
    "RegionTensors",
    "fisher_z",
    "gmean",
    "gmedian",
    "networks_of",
    "plan_connectome",
    "plot_connectome",
    "plot_regions",
    "read_connectomes",
    "read_region_tensors",
    "read_relmat",
    "save_figure",
    "space_of_metric",
    "write_relmat",
]
