# SPDX-License-Identifier: MIT
"""libautobuf: finds the bandwidth-delay product (BDP) of a path, and sets the buffers of TCP sockets that need it.

tune() or Flow before connect() is what most programs need; Live for a connection that is open already. probe(),
inband() and bwdelay() only measure. The names and units are those of the C library, whose manual pages, autobuf(3)
first, say more. None in a result means: not known; in an argument: the default. A failure is an autobuf.Error.
"""
from ._errors import (ClampedError, DamagedError, Error, FewError, ForkedError, NewerError, NoReplyError, OffError,
                      ProtocolError, RelayedError, ResolveError, UnsupportedError)
from ._event import Event, Bottleneck, Lock, Reason, What
from ._flow import Applied, Flow, Live, streams, tune
from ._handle import is_off, log_own, now_ns
from ._library import VERSION as __version__
from ._live import Available, AvailableFlag, Cause, Kind, LiveState
from ._path import (Direction, Method, Path, PathFlag, Probe, Unsure, bwdelay, bwdelay_apply, inband, payload_bytes,
                    probe)
from ._plan import (Intent, Limits, LimitsFlag, Plan, PlanFlag, SocketFlag, SocketState, Stage, Sysctl, apply,
                    limits_host, plan_make, plan_worth, socket_state, unlock)
from ._rightsize import RightSize, RightSizeState

__all__ = [
    "Applied", "Available", "AvailableFlag", "Bottleneck", "Cause", "ClampedError",
    "DamagedError", "Direction", "Error", "Event", "FewError", "Flow", "ForkedError", "Intent", "Kind",
    "Limits", "LimitsFlag", "Live", "LiveState", "Lock", "Method", "NewerError", "NoReplyError", "OffError",
    "Path", "PathFlag", "Plan", "PlanFlag", "Probe", "ProtocolError", "Reason", "RelayedError", "ResolveError", "RightSize",
    "RightSizeState", "SocketFlag", "SocketState", "Stage", "Sysctl", "UnsupportedError", "Unsure", "What", "__version__", "apply", "bwdelay",
    "bwdelay_apply", "inband", "is_off", "limits_host", "log_own", "now_ns", "payload_bytes", "plan_make", "plan_worth",
    "probe", "socket_state", "streams", "tune", "unlock",
]
