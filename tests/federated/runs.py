"""Plans and sites of synthetic studies, in one process."""

from datetime import UTC, datetime

import numpy as np

from curvedp.federated import MeanKernel, Plan, Site, coordinate, in_process
from curvedp.geometry import SPDAffineInvariant
from curvedp.privacy import GDP
from federated.masked_run import identities, keys

SPD = SPDAffineInvariant(2)


def study(
    count=4,
    n=30,
    *,
    kernel=None,
    guarantee=None,
    dropouts=1,
    seed=0,
    records=None,
    **options,
):
    """(plan, people, records) of `count` sites."""
    kernel = MeanKernel(SPD, 1.0) if kernel is None else kernel
    M, rng = kernel.manifold, np.random.default_rng(seed)
    if records is None:
        z = 0.2 * rng.standard_normal((count, n, M.dim)) + 0.1
        records = [
            np.asarray(M.exp(kernel.center, M.from_coordinates(kernel.center, part)))
            for part in z
        ]
    people = identities(count)
    sizes = options.pop("counts", [len(x) for x in records])
    guarantee = GDP(1.0) if guarantee is None else guarantee
    return (
        Plan(kernel, keys(people), sizes, guarantee, dropouts=dropouts, **options),
        people,
        records,
    )


def sites_of(plan, people, records, **options):
    return {
        i: Site(plan, person, x, **options)
        for i, (person, x) in enumerate(zip(people, records, strict=True))
    }


def run(plan, people, records, lost=lambda stage, i: False, **options):
    return coordinate(
        plan, in_process(sites_of(plan, people, records, **options), lost)
    )


def answered_until_mask(plan, people, records, **options):
    """The sites, and what the first of them says when it is asked for its first masked vector."""
    sites = sites_of(plan, people, records, **options)
    request = {
        "stage": "announce",
        "plan": plan.to_dict(),
        "time": datetime.now(UTC).isoformat(),
    }
    said = {str(i): site.answer(request) for i, site in sites.items()}
    boxes = {
        i: site.answer({"stage": "share", "announcements": said})["boxes"]
        for i, site in sites.items()
    }
    at = plan.kernel.initial_state_rows().tolist()
    received = {str(j): boxes[j]["0"] for j in boxes if j != 0}
    return sites, sites[0].answer(
        {"stage": "mask", "round": 0, "at": at, "boxes": received}
    )
