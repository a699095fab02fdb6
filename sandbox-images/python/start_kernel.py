"""Starts the Python kernel, in an image as well as in a local process."""

import codecs
import fcntl
import os
import select
import struct
import sys
import termios
import threading
import time

# What is beside this file is not for code to import. ipykernel_launcher does the same.
del sys.path[0]

from ipykernel import iostream, kernelapp  # noqa: E402

# After so long without output of the code's own, child processes may have written something, in seconds.
PAUSE = 0.0002


class OutStream(iostream.OutStream):
    """A stream that takes what child processes write when it was written.

    ipykernel leaves that to a thread, which reads the pipe in pieces of 1000 bytes: what it has not come to when the cell
    ends is no cell's any more, it comes after what the code printed next, and a character on the border of two pieces
    is damaged. Here whoever flushes, or writes after a pause, takes what is in the pipe first.
    """

    _pipe_lock = None

    def _setup_stream_redirects(self, name):
        # An interrupt's handler may print while its own thread is in here.
        self._pipe_lock = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._written = 0.0
        super()._setup_stream_redirects(name)

    def _watch_pipe_fd(self):
        try:
            while True:
                select.select([self._fid], [], [])
                if not self._should_watch:
                    return
                self._take()
        except Exception:
            self._exc = sys.exc_info()

    def _take(self):
        """Writes what is in the pipe now; not what comes meanwhile, which may have no end."""
        # A forked child has no thread that would let go of the lock.
        if self._pipe_lock is None or not self._is_master_process():
            return
        with self._pipe_lock:
            waiting = struct.unpack("i", fcntl.ioctl(self._fid, termios.FIONREAD, b"\0\0\0\0"))[0]
            while waiting > 0:
                taken = os.read(self._fid, waiting)
                waiting -= len(taken) or waiting
                if text := self._decoder.decode(taken):
                    super().write(text)

    def write(self, string):
        now = time.monotonic()
        if self._pipe_lock is not None:
            if now - self._written > PAUSE:
                self._take()
            self._written = now
        return super().write(string)

    def flush(self):
        self._take()
        super().flush()


iostream.OutStream = OutStream

if __name__ == "__main__":
    kernelapp.launch_new_instance()
