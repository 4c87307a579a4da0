"""The catalogue: an algorithm is a row of slots that are filled independently.

On-policy rows are policy step × constraint × budget × critics' fit, off-policy rows policy step ×
safety layer × budget. A name is a base with suffixes: 'ppo', 'trpo', 'npg', 'cpo' or 'cup', then
'-lag' for a Lagrange multiplier or '-saute' for a safety budget; off-policy 'td3' or 'usl', which
take '-saute'. 'rcpo' is 'npg-lag'. SRO is not part of a name: any on-policy row can have it
(`TrainConfig.sro`).
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.learning.constrained import Constrained
from hipshield.learning.critics import CriticFit
from hipshield.learning.cup import ImproveThenProject
from hipshield.learning.policy_steps import Clipped, Natural
from hipshield.learning.twin_delayed import TwinDelayed
from hipshield.learning.unrolling import Unrolling

PolicyStep = Clipped | Natural | Constrained | ImproveThenProject


@dataclass(frozen=True)
class Algorithm:
    """An on-policy row.

    Attributes:
        has_advantage: there is an advantage, which SRO may shape.
        name: how people call it.
        step: the policy step and its settings.
        critics: how V_R and V_C are fitted.
        multiplier: a Lagrange multiplier is learned.
        penalised: the multiplier enters the advantage; CUP uses it in its projection instead.
        saute: the safety budget is part of the state.
    """

    has_advantage: ClassVar[bool] = True

    name: str
    step: PolicyStep
    critics: CriticFit
    multiplier: bool = False
    penalised: bool = False
    saute: bool = False


@dataclass(frozen=True)
class OffPolicy:
    """An off-policy row.

    Attributes:
        has_advantage: as for `Algorithm`.
        name: how people call it.
        step: how policy and critics learn from a replay.
        layer: corrects actions, and weighs Q_C in the policy's loss.
        saute: the safety budget is part of the state.
    """

    has_advantage: ClassVar[bool] = False

    name: str
    step: TwinDelayed
    layer: Unrolling | None = None
    saute: bool = False


Row = Algorithm | OffPolicy

_FIRST_ORDER = CriticFit(rate=3e-4, batch=64, passes=40)
_SECOND_ORDER = CriticFit(rate=1e-3, batch=128, passes=10)

BASES: dict[str, Row] = {
    "ppo": Algorithm("ppo", Clipped(), _FIRST_ORDER),
    "trpo": Algorithm("trpo", Natural(search=True), _SECOND_ORDER),
    "npg": Algorithm("npg", Natural(), _SECOND_ORDER),
    "cpo": Algorithm("cpo", Constrained(), _SECOND_ORDER),
    "cup": Algorithm("cup", ImproveThenProject(), _FIRST_ORDER, multiplier=True),
    "td3": OffPolicy("td3", TwinDelayed()),
    "usl": OffPolicy("usl", TwinDelayed(), Unrolling()),
}
ALIASES = {"rcpo": "npg-lag"}
SUFFIXES: dict[str, dict[str, Any]] = {
    "lag": {"multiplier": True, "penalised": True},
    "saute": {"saute": True},
}

# The rows that the studies use; any other combination of base and suffixes works as well.
NAMES = (
    "ppo", "trpo", "npg", "ppo-lag", "trpo-lag", "rcpo", "cpo", "cup", "ppo-saute", "trpo-saute",
    "usl",
)  # fmt: skip


def find_algorithm(name: str) -> Row:
    """Return the row of a name.

    Raises:
        HipshieldError: no such base or suffix, and the message names the nearest; or the base has
            no slot for the suffix.
    """
    base, *suffixes = ALIASES.get(name, name).split("-")
    if base not in BASES or any(s not in SUFFIXES for s in suffixes):
        raise HipshieldError(f"Unknown algorithm '{name}'." + did_you_mean(name, NAMES))
    row = BASES[base]
    for suffix in suffixes:
        slots = SUFFIXES[suffix]
        if not set(slots) <= {field.name for field in fields(row)}:
            raise HipshieldError(f"'{base}' does not take '-{suffix}': it is off-policy.")
        row = replace(row, **slots)
    return replace(row, name=name)
