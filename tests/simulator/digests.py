"""The digests of fifty runs, which are the same everywhere: ``python -m tests.simulator.digests`` prints them anew.

``... digests --loop trio`` plays them on the other event loop.
"""

import json
import sys
from pathlib import Path

from dispatch_memory_async import Shape
from dispatch_memory_async.simulator import SimConfig, simulate

FILE = Path(__file__).with_name("digests.json")
CONFIGS = {
    f"{shape} {seed}": SimConfig(seed=seed, shape=shape, jobs=1 + (seed % 5 == 4), supervisors=3)
    for seed in range(25)
    for shape in Shape
}


def digests(loop: str) -> dict[str, str]:
    """The digest of each run."""
    return {name: simulate(config, loop=loop).digest for name, config in CONFIGS.items()}


if __name__ == "__main__":
    print(json.dumps(digests("trio" if "trio" in sys.argv else "asyncio"), indent=1))  # noqa: T201
