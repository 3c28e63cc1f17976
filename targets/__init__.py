"""What fornaxc can compile for: families, architectures, aliases, limits, and what this machine can run.

Nothing here imports max: a target is parsed, keyed and compared before MAX is needed.
"""

from fornaxc.targets.base import Target
from fornaxc.targets.host import HostCpu, host_cpu
from fornaxc.targets.parse import known_targets, parse_target

__all__ = ["HostCpu", "Target", "host_cpu", "known_targets", "parse_target"]
