"""A supervisor's process id and a command line → that command, which ends when the supervisor does.

Run as a file, in front of every child. A supervisor that is killed with -9 can stop nobody, so the
kernel is asked to: PR_SET_PDEATHSIG sends a signal when the parent dies, and survives exec. It must
be set in the child itself; doing that here rather than in a `preexec_fn` keeps Python code out of
the moment between fork and exec, where another thread's lock can hang it.

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
        if os.getppid() != supervisor:  # it died before the line above
            return
    os.execv(argv[0], argv)  # noqa: S606  the programs are ours


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
