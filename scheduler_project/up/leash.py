"""Execute a command that ends when its supervisor ends.

This file runs in front of every child. A supervisor that is killed with -9 cannot stop its children, so the
kernel does: PR_SET_PDEATHSIG sends a signal when the parent dies, and it survives exec. It has to be set in
the child itself. Setting it here and not in a `preexec_fn` keeps Python code out of the moment between fork
and exec, where a lock of another thread can block forever.

Linux only; elsewhere the children of a killed supervisor have to be stopped by hand.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(supervisor: int, argv: list[str]) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor:  # the supervisor died before the line above
            return
    os.execv(argv[0], argv)  # noqa: S606  the programs are ours


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
