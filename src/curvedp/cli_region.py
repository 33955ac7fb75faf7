"""`curvedp region CERTIFICATE VALUE`: error bars, years later, from what was published."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from curvedp._console import JsonOption, check_picture, console, inert, one_line_errors, save_picture
from curvedp.cli_verify import SECONDS, checks_of, confirmed, limited
from curvedp.errors import ParameterError, VerificationFailed


def region(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    value: Annotated[Path, typer.Argument(help="npy or csv with what was released")],
    level: Annotated[float, typer.Option(help="probability that the region holds the truth")] = 0.95,
    of: Annotated[str, typer.Option(help="records, or population")] = "records",
    against: Annotated[Path | None, typer.Option(help="certificate of a second release: can both be true?")] = None,
    plot: Annotated[Path | None, typer.Option(help="write a picture (svg, png or pdf)")] = None,
    json: JsonOption = False,
) -> None:
    """The confidence region of a release, from its certificate, which is verified first; exit 1 if that fails or --against
    cannot be true at the same time."""
    with one_line_errors():
        check_picture(plot)
        found, same = limited(lambda: _found(certificate, value, level, of, against), SECONDS)
        if plot is not None:
            save_picture(found.plot(), plot)
        told = {"center": found.center.tolist(), "radius": found.radius, "level": found.level, "of": found.of}
        told |= {"about": found.about, "theorem": found.theorem}
        if json:
            print(json_module.dumps(told if same is None else {**told, "consistent": same}))
        else:
            _show(found)
        if same is False:
            raise VerificationFailed(f"{against}: the regions do not meet, so they cannot both be true")


def _found(certificate: Path, value: Path, level: float, of: str, against: Path | None) -> tuple[Any, bool | None]:
    from curvedp.inference import consistent, region_of
    from curvedp.inference.region import components_of

    signed = _verified(certificate)
    mechanism = signed.made_by
    published = _read(value)
    components = components_of(mechanism.statistic, published)
    _check_value(mechanism, signed, published, components)
    found = region_of(signed, level, of, components)
    return found, None if against is None else consistent(signed, _verified(against), level, of)


def _verified(path: Path) -> Any:
    from curvedp.mechanisms.certificate import Certificate

    confirmed(checks_of(path), f"{path}: ")
    return Certificate.load(path)


def _read(path: Path) -> Any:
    import numpy as np

    try:
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=2)
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, TypeError, EOFError):
        raise ParameterError(f"{path} is not an npy or csv file as --out of curvedp release writes it") from None


def _check_value(mechanism: Any, certificate: Any, published: Any, components: int | None) -> None:
    """Refuse a value that the certificate's integers do not lead to, and means of classes of which none is its own."""
    import numpy as np

    from curvedp.geometry import Grassmann
    from curvedp.mechanisms.second_moment import unpack

    own = _own(mechanism, certificate)
    if components is None:
        several = published.reshape(-1, *own.shape) if published.size % own.size == 0 else ()
        same = any(np.allclose(each, own, rtol=1e-9, atol=1e-12) for each in several)
    else:
        features = published.shape[1]
        leading = np.linalg.eigh(unpack(own, features))[1][:, ::-1][:, :components]
        same = float(Grassmann(features, components).dist(leading, published.T)) < 1e-6
    if not same:
        raise VerificationFailed("the value is not the one that this certificate is about")


def _own(mechanism: Any, certificate: Any) -> Any:
    """What the integers lead to, as `releasing.values` writes it: of a geodesic its start and velocity."""
    import numpy as np

    own = mechanism.value_of(certificate)
    if not isinstance(own, tuple):
        return np.asarray(own)
    p, V = own if len(own[1]) > 1 else mechanism.manifold.geodesic(own[0], own[1][0], -0.5)
    return np.concatenate([p[None], V.reshape(-1, *p.shape)])


def _show(found: Any) -> None:
    import numpy as np

    console.print(f"{100 * found.level:g}% region of the {found.of}: within {found.radius:.6g} of", highlight=False)
    for line in np.array2string(found.center, precision=8).splitlines():
        console.print(inert(line), highlight=False)
    console.print(f"it holds {inert(found.about)}; {inert(found.theorem)}", soft_wrap=True, highlight=False)
