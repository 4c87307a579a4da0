"""The catalogue: an algorithm is a row of policy step × constraint × budget × critics' fit.

A name is a base with suffixes: 'ppo', 'trpo', 'npg', 'cpo' or 'cup', then '-lag' for a Lagrange
multiplier or '-saute' for a safety budget. 'rcpo' is 'npg-lag'. SRO is not part of a name: any row
can have it (`TrainConfig.sro`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.learning.constrained import Constrained
from hipshield.learning.critics import CriticFit
from hipshield.learning.cup import ImproveThenProject
from hipshield.learning.policy_steps import Clipped, Natural

PolicyStep = Clipped | Natural | Constrained | ImproveThenProject


@dataclass(frozen=True)
class Algorithm:
    """One row.

    Attributes:
        name: how people call it.
        step: the policy step and its settings.
        critics: how V_R and V_C are fitted.
        multiplier: a Lagrange multiplier is learned.
        penalised: the multiplier enters the advantage; CUP uses it in its projection instead.
        saute: the safety budget is part of the state.
    """

    name: str
    step: PolicyStep
    critics: CriticFit
    multiplier: bool = False
    penalised: bool = False
    saute: bool = False


_FIRST_ORDER = CriticFit(rate=3e-4, batch=64, passes=40)
_SECOND_ORDER = CriticFit(rate=1e-3, batch=128, passes=10)

BASES = {
    "ppo": Algorithm("ppo", Clipped(), _FIRST_ORDER),
    "trpo": Algorithm("trpo", Natural(search=True), _SECOND_ORDER),
    "npg": Algorithm("npg", Natural(), _SECOND_ORDER),
    "cpo": Algorithm("cpo", Constrained(), _SECOND_ORDER),
    "cup": Algorithm("cup", ImproveThenProject(), _FIRST_ORDER, multiplier=True),
}
ALIASES = {"rcpo": "npg-lag"}
SUFFIXES: dict[str, Callable[[Algorithm], Algorithm]] = {
    "lag": lambda row: replace(row, multiplier=True, penalised=True),
    "saute": lambda row: replace(row, saute=True),
}

# The rows that the studies use; any other combination of base and suffixes works as well.
NAMES = (
    "ppo", "trpo", "npg", "ppo-lag", "trpo-lag", "rcpo", "cpo", "cup", "ppo-saute", "trpo-saute",
)  # fmt: skip


def find_algorithm(name: str) -> Algorithm:
    """Return the row of a name.

    Raises:
        HipshieldError: no such base or suffix; the message names the nearest.
    """
    base, *suffixes = ALIASES.get(name, name).split("-")
    if base not in BASES or any(s not in SUFFIXES for s in suffixes):
        raise HipshieldError(f"Unknown algorithm '{name}'." + did_you_mean(name, NAMES))
    row = BASES[base]
    for suffix in suffixes:
        row = SUFFIXES[suffix](row)
    return replace(row, name=name)
