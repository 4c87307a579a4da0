"""hipshield: adaptive safety shields for learning robots whose physics changes.

Importing the package registers its environments with Gymnasium:

    >>> import gymnasium, hipshield
    >>> env = gymnasium.make("hipshield/PointGoal1-v0", split="ood")
"""

from importlib.metadata import version

from hipshield.worlds.registration import register_all

__version__ = version("hipshield")

register_all()
