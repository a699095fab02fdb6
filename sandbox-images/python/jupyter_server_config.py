"""How Jupyter runs in a Cellgate sandbox, in an image as well as in a local process.

Everything that differs from sandbox to sandbox comes in variables, which are taken out of the
environment here, before any kernel starts and inherits it.
"""

import errno
import json
import os
import shutil
import sys
from contextlib import contextmanager

from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

c = get_config()  # noqa: F821


def taken(name, default=None):
    """The variable's value; kernels never see it."""
    return os.environ.pop(name, default)


# The token comes on stdin where the launcher can write there: a process's first environment stays readable in /proc
# for as long as it lives.
if taken("CELLGATE_TOKEN_STDIN"):
    token = sys.stdin.readline().strip()
    taken("JUPYTER_TOKEN")
    # Variables that a caller chose may be secrets as well. Where they come this way, they are on the second line.
    os.environ.update(json.loads(sys.stdin.readline().strip() or "{}"))
else:
    token = taken("JUPYTER_TOKEN", "")
if not token:
    sys.exit("No token: set JUPYTER_TOKEN, or CELLGATE_TOKEN_STDIN and write the token to stdin.")

# Jupyter would write a file with the token into its runtime directory.
ServerApp.write_server_info_file = lambda self: None
ServerApp.write_browser_open_files = lambda self: None



class WholeFileManager(AsyncLargeFileManager):
    """Writes beside a file and renames over it.

    Jupyter's own way writes into the file and keeps the old one beside it: a server that is killed meanwhile, or out of
    memory, leaves half a notebook.
    """

    @contextmanager
    def atomic_writing(self, os_path, text=True, encoding="utf-8", **kwargs):
        path = os.path.realpath(os_path)
        folder, name = os.path.split(path)
        if os.path.exists(path) and not os.access(folder, os.W_OK):
            with super().atomic_writing(os_path, text, encoding, **kwargs) as file:
                yield file
            return
        draft = os.path.join(folder, f".~{name[:200]}.{os.getpid()}")
        with self.perm_to_403(os_path):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                # A rename asks only the folder; a file that may not be written stays as it is.
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os_path)
            try:
                with open(draft, "w" if text else "wb", encoding=encoding if text else None, **kwargs) as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                if os.path.exists(path):
                    shutil.copymode(path, draft)
                os.replace(draft, path)
            finally:
                if os.path.exists(draft):
                    os.unlink(draft)


def seconds(name):
    """The variable as a number, if it is set."""
    value = taken(name)
    return float(value) if value else None


idle, expires_at = seconds("CELLGATE_IDLE_SECONDS"), seconds("CELLGATE_EXPIRES_AT")
directory = taken("CELLGATE_DIRECTORY")
if idle is not None or expires_at is not None:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import dead_mans_switch

    dead_mans_switch.start(idle, expires_at, directory)

c.ServerApp.contents_manager_class = WholeFileManager
c.IdentityProvider.token = token
c.ServerApp.ip = taken("CELLGATE_IP", "*")
c.ServerApp.port = int(taken("CELLGATE_PORT", "8888"))
c.ServerApp.port_retries = 0
c.ServerApp.base_url = taken("CELLGATE_BASE_URL", "/")
c.ServerApp.root_dir = taken("CELLGATE_ROOT_DIR", os.getcwd())
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.answer_yes = True
c.ServerApp.quit_button = False
c.ServerApp.terminals_enabled = False
# No line for each request that finds nothing: the log is for what goes wrong here.
c.ServerApp.tornado_settings = {"log_function": lambda handler: None}
c.ServerApp.jpserver_extensions = {"jupyter_server_terminals": False}
# The gateway is the only client, and reaches the server by other names than its own.
c.ServerApp.allow_remote_access = True
# What is deleted is gone: a sandbox has no desktop with a trash can.
c.FileContentsManager.delete_to_trash = False
# Jupyter drops output above these rates without a word; the gateway bounds what an answer holds.
c.ZMQChannelsWebsocketConnection.limit_rate = False
c.ZMQChannelsWebsocketConnection.iopub_data_rate_limit = 0
c.ZMQChannelsWebsocketConnection.iopub_msg_rate_limit = 0
# Each second is looked whether a kernel's process is there. One that ends three times in a row before it was there for ten seconds is
# given up: what can't run is said in seconds.
c.KernelRestarter.time_to_dead = 1.0
c.KernelRestarter.restart_limit = 2
# Ending idle kernels is the gateway's decision.
c.MappingKernelManager.cull_idle_timeout = 0
# Notebooks are large where they hold plots.
c.ServerApp.max_body_size = 1 << 30
c.ServerApp.max_buffer_size = 1 << 30
