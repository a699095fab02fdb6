"""Starts Jupyter Server, in an image as well as in a local process."""

import sys

# jsonschema tries this optional package for IRIs, and importing it builds a parser: most of the time that Jupyter
# needs to start. Nothing here checks IRIs.
sys.modules["rfc3987_syntax"] = None

from jupyter_server.serverapp import main  # noqa: E402

if __name__ == "__main__":
    main()
