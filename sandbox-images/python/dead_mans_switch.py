"""Ends a sandbox that nobody ends any more: its gateway is gone, and its time is over.

In Jupyter it is a thread, which looks and decides. The ending is done by a process of its own, since the interpreter
may be gone before everything that was started in it is.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone

MARK = "CELLGATE_SANDBOX"
# A gateway that lives ends the sandbox first. All in seconds.
LEAST_GRACE, MOST_GRACE = 10, 60
EXPIRY_GRACE = 30
LEAST_PAUSE, MOST_PAUSE = 0.5, 30
# How long Jupyter gets to end its kernels, and then the rest to be gone.
ASKED = KILLED = 5


def start(idle=None, expires_at=None, directory=None):
    """Watches from now on. Idle is in seconds, expires_at in Unix time; the directory gets a file with the reason."""
    threading.Thread(target=watch, args=(idle, expires_at, directory), name="dead man's switch", daemon=True).start()


def watch(idle, expires_at, directory):
    """Waits for the end of the sandbox's time, and ends it."""
    # Never the server's event loop, which something may block. Nobody sets it: this is a pause that needs no signal.
    started, never = datetime.now(timezone.utc), threading.Event()
    while not (reason := over(idle, expires_at, started)):
        never.wait(pause(idle, expires_at))
    # A container has its log alone to say why it ended.
    print("cellgate:", reason, file=sys.stderr, flush=True)
    if directory:
        with suppress(OSError):
            write(os.path.join(directory, "ended"), reason + "\n")
    try:
        begin_the_end()
    except OSError:
        # There is no process to be had: what is left is killed from here.
        kill_all(os.environ.get(MARK), set())
    else:
        never.wait(ASKED + 1)
    os._exit(0)


def over(idle, expires_at, started):
    """Why the sandbox's time is over, if it is."""
    if expires_at is not None and time.time() > expires_at + EXPIRY_GRACE:
        return "it expired (ttl_seconds)"
    if idle is not None and unused(started) > idle + min(MOST_GRACE, max(LEAST_GRACE, idle / 10)):
        return f"it was not used for {idle:.0f} s"
    return None


def pause(idle, expires_at):
    """How long to wait until the next look."""
    wishes = [MOST_PAUSE]
    if idle is not None:
        wishes.append(idle / 4)
    if expires_at is not None:
        wishes.append(expires_at + EXPIRY_GRACE - time.time())
    return max(LEAST_PAUSE, min(wishes))


def unused(started):
    """For how many seconds nobody used Jupyter; 0 while code runs or somebody is connected."""
    from jupyter_server.serverapp import ServerApp

    # Asking for an instance makes one.
    server = ServerApp.instance() if ServerApp.initialized() else None
    kernels = getattr(server, "kernel_manager", None)
    application = getattr(server, "web_app", None)
    try:
        if kernels and in_use(kernels):
            return 0
        used = application.last_activity() if application else started
    except RuntimeError:
        # A dictionary of Jupyter's changed during the look; there will be another.
        return 0
    return (datetime.now(timezone.utc) - max(used, started)).total_seconds()


def in_use(kernels):
    """Whether a kernel is busy or has a connection."""
    busy = any(getattr(kernel, "execution_state", None) == "busy" for kernel in list(kernels._kernels.values()))
    return busy or any(count > 0 for count in list(kernels._kernel_connections.values()))


def write(path, text):
    """Writes a file that is whole or not there."""
    draft = path + ".draft"
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)


def begin_the_end():
    """Starts the process that ends everything. It has no mark, so it does not end itself."""
    subprocess.Popen(
        [sys.executable, "-I", os.path.abspath(__file__), str(os.getpid()), os.environ.get(MARK, "")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: value for name, value in os.environ.items() if not name.startswith("CELLGATE_")},
        start_new_session=True,
    )


def end(server, sandbox):
    """Asks Jupyter to end with its kernels, and kills what is left after a while."""
    import psutil

    known = set()
    with suppress(psutil.Error):
        process = psutil.Process(server)
        # Before it ends: what cleared its environment is known by its parents alone.
        known = belonging(sandbox, {process})
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=ASKED)
    kill_all(sandbox, known)


def kill_all(sandbox, known):
    """Kills what belongs to the sandbox until nothing of it is left."""
    import psutil

    until = time.monotonic() + KILLED
    while (known := belonging(sandbox, known)) and time.monotonic() < until:
        for process in known:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(known, timeout=0.2)


def belonging(sandbox, known):
    """The processes with the sandbox's mark and those that were known to be its, with all descendants."""
    import psutil

    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process in known or (sandbox and process.environ().get(MARK) == sandbox):
                found.update([process, *process.children(recursive=True)])
    found.discard(psutil.Process())
    return {process for process in found if runs(process)}


def runs(process):
    """Whether it is there, and no zombie."""
    import psutil

    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


if __name__ == "__main__":
    end(int(sys.argv[1]), sys.argv[2])
