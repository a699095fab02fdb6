"""Starts the Python kernel, in an image as well as in a local process."""

import codecs
import contextvars
import fcntl
import functools
import os
import select
import struct
import sys
import termios
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

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
                    # It counts to the cell that runs, whichever cell's thread came by.
                    contextvars.Context().run(super().write, text)

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


# The context variables in which ipykernel keeps whose output it is.
CELL = {"parent_header", "shell_parent", "shell_parent_ident"}


def of_this_cell():
    """What tells that something is put out by the cell that runs here; nothing outside of cells."""
    return [(variable, value) for variable, value in contextvars.copy_context().items() if variable.name in CELL and value]


def enter(cell):
    return [(variable, variable.set(value)) for variable, value in cell]


def start_in_cell(start):
    """Starts threads whose outputs stay those of the cell that started them.

    Before Python 3.14 a thread begins with no context, and what it puts out counts to whatever cell runs then: another caller's.
    """

    @functools.wraps(start)
    def start_in_this_cell(thread):
        if cell := of_this_cell():
            context = contextvars.Context()
            context.run(enter, cell)
            thread.run = functools.partial(context.run, thread.run)
        start(thread)

    return start_in_this_cell


def submit_from_cell(submit):
    """Makes what a pool is given a part of the cell that gives it, and not of the one whose thread runs it."""

    def part_of(cell, function):
        def part(*args, **kwargs):
            __tracebackhide__ = True
            entered = enter(cell)
            try:
                return function(*args, **kwargs)
            finally:
                for variable, token in entered:
                    variable.reset(token)

        return part

    @functools.wraps(submit)
    def submit_from_this_cell(pool, *args, **kwargs):
        if cell := of_this_cell():
            if args:
                args = (part_of(cell, args[0]), *args[1:])
            elif "func" in kwargs:
                kwargs["func"] = part_of(cell, kwargs["func"])
        return submit(pool, *args, **kwargs)

    return submit_from_this_cell


iostream.OutStream = OutStream
threading.Thread.start = start_in_cell(threading.Thread.start)
ThreadPoolExecutor.submit = submit_from_cell(ThreadPoolExecutor.submit)
for name in ("apply_async", "map", "map_async", "starmap", "starmap_async", "imap", "imap_unordered"):
    setattr(ThreadPool, name, submit_from_cell(getattr(ThreadPool, name)))

if __name__ == "__main__":
    kernelapp.launch_new_instance()
