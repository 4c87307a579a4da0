"""The command line: one verb per thing a person wants to do.

Bad input ends with one line on standard error and exit code 2; Ctrl-C with 130.
"""

import sys
from typing import Annotated

import tyro

from hipshield.cli.learning import Train
from hipshield.cli.models import Collect, CompareModels, Fit
from hipshield.cli.worlds import Bench, Demo, Watch, Worlds
from hipshield.errors import HipshieldError

Verb = (
    Annotated[Worlds, tyro.conf.subcommand("worlds")]
    | Annotated[Watch, tyro.conf.subcommand("watch")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Collect, tyro.conf.subcommand("collect")]
    | Annotated[Fit, tyro.conf.subcommand("fit")]
    | Annotated[CompareModels, tyro.conf.subcommand("compare-models")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
)


def main(args: list[str] | None = None) -> int:
    """Run a verb; return the exit code."""
    about = (__doc__ or "").split("\n")[0]
    try:
        # Descriptions check themselves when they are made: that may already be an error.
        verb = tyro.cli(Verb, prog="hipshield", args=args, description=about)
        verb.run()
    except HipshieldError as error:
        print(f"hipshield: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        print(f"hipshield: cannot read or write{place}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("hipshield: stopped.", file=sys.stderr)
        return 130
    return 0
