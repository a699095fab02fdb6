"""A whole session through the Python SDK's client. Usage: python_client.py URL auto|legacy"""

import asyncio
import base64
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"


def text_of(answer):
    return "\n".join(block.text for block in answer.content if block.type == "text")


async def ok(client, tool, **arguments):
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, f"{tool}: {text_of(answer)}"
    assert answer.structured_content["kind"], tool
    return answer


async def session(client):
    tools = (await client.list_tools()).tools
    assert len(tools) == 22, [tool.name for tool in tools]

    launched = await ok(client, "launch_sandbox", sandbox_name="work")
    assert launched.structured_content["sandbox"]["status"] == "running", launched.structured_content
    await ok(client, "use_notebook", notebook_name="nb", notebook_path="nb.ipynb", mode="create")
    inserted = await ok(client, "insert_cell", cell_index=-1, cell_type="markdown", cell_source="# Plot")
    cell = inserted.meta["io.jupyter-mcp/cell_id"]
    assert cell == inserted.structured_content["cell"]["id"]

    notes = []

    async def heard(progress, total, message):
        notes.append(message)

    slow = "import time\nfor i in range(3):\n    print('tick', i, flush=True); time.sleep(0.8)"
    arguments = {"cell_index": -1, "cell_source": slow, "progress_interval": 1}
    ran = await client.call_tool("insert_execute_code_cell", arguments, progress_callback=heard)
    assert "tick 2" in text_of(ran), text_of(ran)
    assert notes, "no progress came"

    plotted = await ok(client, "insert_execute_code_cell", cell_index=-1, cell_source=PLOT)
    images = [block for block in plotted.content if block.type == "image"]
    assert len(images) == 1 and plotted.structured_content["images"] == 1, plotted.structured_content
    assert base64.b64decode(images[0].data, validate=True).startswith(b"\x89PNG")
    assert images[0].mime_type == "image/png"

    read = await ok(client, "read_notebook", notebook_name="nb", response_format="detailed")
    assert read.structured_content["total"] == 3, read.structured_content
    assert cell in text_of(read)
    await ok(client, "read_cell", cell_id=cell)
    files = await ok(client, "list_files")
    assert [row["Path"] for row in files.structured_content["items"]] == ["nb.ipynb"], files.structured_content
    assert files.meta["io.modelcontextprotocol/cache"]["ttlMs"] == 30000
    await ok(client, "list_notebooks")
    await ok(client, "list_kernels")

    # An error of each shape has to get past the client's own validation.
    for tool, arguments in [
        ("read_cell", {"cell_index": 99}),
        ("use_notebook", {"notebook_name": "x", "notebook_path": "none.ipynb"}),
        ("list_files", {"path": "none"}),
        ("launch_sandbox", {"sandbox_name": "x", "variant": "none"}),
        ("execute_code", {}),
        ("list_sandboxes", {"unknown": 1}),
    ]:
        answer = await client.call_tool(tool, arguments)
        assert answer.is_error and answer.structured_content["error"]["code"], tool
        assert text_of(answer).strip(), tool

    await ok(client, "unuse_notebook", notebook_name="nb")
    await ok(client, "terminate_sandbox", sandbox_name="work")
    listed = await ok(client, "list_sandboxes")
    assert all(record["status"] != "running" for record in listed.structured_content["result"])


async def main(url, mode):
    http = httpx2.AsyncClient(timeout=900)
    async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        await session(client)
    print("all done")


asyncio.run(main(*sys.argv[1:3]))
