"""`curvedp region CERTIFICATE VALUE`: error bars, years later, from what was published."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from curvedp._console import (
    JsonOption,
    PictureOption,
    check_picture,
    command,
    console,
    inert,
    save_picture,
)
from curvedp.cli_verify import SECONDS, checks_of, confirmed, limited
from curvedp.errors import ParameterError, VerificationFailed


@command
def region(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    value: Annotated[Path, typer.Argument(help="npy or csv with what was released")],
    level: Annotated[
        float, typer.Option(help="probability that the region holds the truth")
    ] = 0.95,
    of: Annotated[str, typer.Option(help="records, or population")] = "records",
    against: Annotated[
        Path | None,
        typer.Option(help="certificate of a second release: can both be true?"),
    ] = None,
    plot: PictureOption = None,
    json: JsonOption = False,
) -> None:
    """The confidence region of a release, from its certificate, which is verified first; exit 1 if that fails or --against
    cannot be true at the same time."""
    check_picture(plot)
    found, same = limited(
        lambda: _found(certificate, value, level, of, against), SECONDS
    )
    if plot is not None:
        save_picture(found.plot(), plot)
    told = {
        "center": found.center.tolist(),
        "radius": found.radius,
        "level": found.level,
        "of": found.of,
    }
    told |= {"about": found.about, "theorem": found.theorem}
    if json:
        print(json_module.dumps(told if same is None else {**told, "consistent": same}))
    else:
        from numpy import array2string

        console.print(
            f"{100 * found.level:g}% region of the {found.of}: within {found.radius:.6g} of",
            highlight=False,
        )
        for line in array2string(found.center, precision=8).splitlines():
            console.print(inert(line), highlight=False)
        console.print(
            f"it holds {inert(found.about)}; {inert(found.theorem)}",
            soft_wrap=True,
            highlight=False,
        )
    if same is False:
        raise VerificationFailed(
            f"{against}: the regions do not meet, so they cannot both be true"
        )


def _found(
    certificate: Path, value: Path, level: float, of: str, against: Path | None
) -> tuple[Any, bool | None]:
    from curvedp.inference import consistent, region_of
    from curvedp.inference.region import components_of

    signed, published = _verified(certificate), _read(value)
    components = components_of(signed.made_by.statistic, published)
    _check_value(signed, published, components)
    found = region_of(signed, level, of, components)
    return found, None if against is None else consistent(
        signed, _verified(against), level, of
    )


def _verified(path: Path) -> Any:
    certificate, checks = checks_of(path)
    confirmed(checks, f"{path}: ")
    return certificate


def _read(path: Path) -> Any:
    import numpy as np

    try:
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=2)
        with path.open("rb") as file:
            return np.asarray(np.load(file, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, TypeError, EOFError):
        raise ParameterError(
            f"{path} is not an npy or csv file as --out of curvedp release writes it"
        ) from None


def _check_value(certificate: Any, published: Any, components: int | None) -> None:
    """Refuse a value that the certificate's integers do not lead to, and means of classes of which none is its own."""
    import numpy as np

    from curvedp.geometry import Grassmann
    from curvedp.mechanisms.second_moment import unpack

    mechanism = certificate.made_by
    own = mechanism.value_of(certificate)
    if isinstance(
        own, tuple
    ):  # a geodesic: its start and velocity, as `releasing.values` writes them
        p, V = (
            own
            if len(own[1]) > 1
            else mechanism.manifold.geodesic(own[0], own[1][0], -0.5)
        )
        own = np.concatenate([p[None], V.reshape(-1, *p.shape)])
    own = np.asarray(own)
    if components is None:
        several = (
            published.reshape(-1, *own.shape) if published.size % own.size == 0 else ()
        )
        same = any(np.allclose(each, own, rtol=1e-9, atol=1e-12) for each in several)
    else:
        features = published.shape[1]
        leading = np.linalg.eigh(unpack(own, features))[1][:, ::-1][:, :components]
        same = float(Grassmann(features, components).dist(leading, published.T)) < 1e-6
    if not same:
        raise VerificationFailed(
            "the value is not the one that this certificate is about"
        )
