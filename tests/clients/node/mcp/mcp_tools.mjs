// The same as python/mcp_tools.py, with the official MCP SDK for TypeScript.
import net from "node:net";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, folder, cut] = process.argv.slice(2);
const seen = {};
const client = new Client({ name: "warmpool-test", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(url));

const told = (result) =>
  [result.isError ? "failed" : "ok", result.content.map((one) => one.text).join("")];
const tool = (name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, options);
const run = async (command, more) =>
  JSON.parse(told(await tool("exec", { command, ...more }))[1]);
const waits = (name) =>
  `touch ${folder}/${name}.begun; while [ ! -e ${folder}/${name} ]; do sleep 0.05; done; echo through`;
const begun = (name) =>
  run(`while [ ! -e ${folder}/${name}.begun ]; do sleep 0.05; done`);

await client.connect(transport);
seen.version = transport.protocolVersion;
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((one) => one.name);
seen.success = await run("echo out; echo err >&2; exit 3");
seen.failure = told(await tool("exec", { command: "" }));
seen.unfit = await tool("exec", { command: "x", timeout_ms: "x" }).then(
  (result) => told(result)[0], () => "refused");
seen.timeout = await run("echo part; exec sleep 1000", { timeout_ms: 2000 });
seen.background = await run("echo soon; (sleep 0.5; echo late) &");
seen.write = told(await tool("write_file", { path: `${folder}/a/b`, content: "caf\u00e9" }));
seen.read = told(await tool("read_file", { path: `${folder}/a/b` }));
seen.list = JSON.parse(told(await tool("list_dir", { path: `${folder}/a` }))[1]);
seen.skill = told(await tool("get_skill", { name: "../pdf" }));

const heard = [];
let long;
await new Promise((resolve) => {
  long = tool("exec", { command: waits("long") }, {
    onprogress: ({ progress }) => {
      heard.push(progress);
      if (heard.length >= 2) resolve();
    },
    resetTimeoutOnProgress: true,
  });
});
seen.progress_grows = heard.every((one, i) => i === 0 || one > heard[i - 1]);
await tool("write_file", { path: `${folder}/long`, content: "" });
seen.long = JSON.parse(told(await long)[1]).stdout;

// It ends by itself: a POST right after the cut may meet a connection that is cut
// already, and nobody repeats it.
let lost;
await new Promise((resolve) => {
  lost = tool("exec", { command: "sleep 4; echo through" }, { onprogress: resolve });
});
await new Promise((resolve) =>
  net.connect(Number(cut), "127.0.0.1").on("close", resolve).resume());
seen.lost = JSON.parse(told(await lost)[1]).stdout;

const leave = new AbortController();
const left = tool("exec", { command: waits("left") + `; touch ${folder}/went-on` },
  { signal: leave.signal }).catch(() => "left");
await begun("left");
leave.abort();
await left;
await tool("write_file", { path: `${folder}/left`, content: "" });
seen.left = await run(`while [ ! -e ${folder}/went-on ]; do sleep 0.05; done; echo went on`);
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
