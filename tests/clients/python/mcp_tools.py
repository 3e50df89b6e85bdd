"""What the official MCP SDK for Python does with a server that has kagent's five
tools. mcp_tools.py URL FOLDER [CUT] prints what it saw, as JSON. FOLDER is where the
tools may write; a connection to the local port CUT makes the one in between cut all
connections to the server, and is closed when that is done. Without CUT it makes no
long calls."""
import asyncio
import json
import socket
import sys

from mcp import Client

URL, FOLDER, *CUT = sys.argv[1:4]


def told(result):
    text = "".join(one.text for one in result.content)
    return ["failed" if result.is_error else "ok", text]


async def refused(call):
    try:
        return told(await call)
    except Exception as error:  # What it raises is the SDK's business.
        return ["refused", str(error)]


def waits(name):
    return ("touch %s/%s.begun; while [ ! -e %s/%s ]; do sleep 0.05; done; "
            "echo through" % (FOLDER, name, FOLDER, name))


async def main():
    seen = {}
    async with Client(URL) as client:
        async def tool(name, /, **arguments):
            return await client.call_tool(name, arguments)

        async def run(command, **more):
            return json.loads(told(await tool("exec", command=command, **more))[1])

        async def begun(name):
            await run("while [ ! -e %s/%s.begun ]; do sleep 0.05; done"
                      % (FOLDER, name))

        seen["version"] = client.protocol_version
        seen["server"] = client.server_info.name
        seen["tools"] = [one.name for one in (await client.list_tools()).tools]
        seen["success"] = await run("echo out; echo err >&2; exit 3")
        seen["failure"] = told(await tool("exec", command=""))
        seen["unfit"] = (await refused(tool("exec", command="x", timeout_ms="x")))[0]
        seen["timeout"] = await run("echo part; exec sleep 1000", timeout_ms=2000)
        seen["background"] = await run("echo soon; (sleep 0.5; echo late) &")
        path = FOLDER + "/a/b"
        seen["write"] = told(await tool("write_file", path=path, content="caf\u00e9"))
        seen["read"] = told(await tool("read_file", path=path))
        seen["list"] = json.loads(told(await tool("list_dir", path=FOLDER + "/a"))[1])
        seen["skill"] = told(await tool("get_skill", name="../pdf"))

        if not CUT:
            print(json.dumps(seen))
            return
        progress = asyncio.Event()
        heard = []

        async def on_progress(done, total, message):
            heard.append(done)
            if len(heard) >= 2:
                progress.set()
        long = asyncio.create_task(client.call_tool(
            "exec", {"command": waits("long")}, progress_callback=on_progress))
        await progress.wait()
        seen["progress_grows"] = heard == sorted(set(heard))
        await tool("write_file", path=FOLDER + "/long", content="")
        seen["long"] = json.loads(told(await long)[1])["stdout"]

        # It ends by itself: a POST right after the cut may meet a connection that
        # is cut already, and nobody repeats it.
        hears = asyncio.Event()

        async def on_first(*_):
            hears.set()
        lost = asyncio.create_task(client.call_tool(
            "exec", {"command": "sleep 4; echo through"},
            progress_callback=on_first))
        await hears.wait()
        with socket.create_connection(("127.0.0.1", int(CUT[0]))) as cut:
            cut.recv(1)
        seen["lost"] = json.loads(told(await lost)[1])["stdout"]

        left = asyncio.create_task(tool(
            "exec", command=waits("left") + "; touch %s/went-on" % FOLDER))
        await begun("left")
        left.cancel()
        await tool("write_file", path=FOLDER + "/left", content="")
        seen["left"] = await run("while [ ! -e %s/went-on ]; do sleep 0.05; done;"
                                 " echo went on" % FOLDER)
    print(json.dumps(seen))


asyncio.run(main())
