/** An upstream server in a process of its own, controlled by messages of its parent. It ends with its parent. */
import { createServer, type ServerResponse } from "node:http";
import process from "node:process";
import { sse } from "./raw-upstream.js";
import type { Behaviour, UpstreamOrder } from "./upstream-process.js";

/** Mean time to the first content; the behaviour `slow` takes ten times as long. */
const answerMs = 60;
const slowFactor = 10;
const retryAfterSeconds = 5;

const content = sse({ choices: [{ index: 0, delta: { content: "Hello" }, finish_reason: null }] });
const end = sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) + sse("[DONE]");

let behaviour: Behaviour = "works";

function answer(response: ServerResponse): void {
  if (behaviour === "500") response.writeHead(500, { "content-type": "text/plain" }).end("Internal Server Error");
  else if (behaviour === "429") response.writeHead(429, { "retry-after": String(retryAfterSeconds) }).end("slow down");
  else if (behaviour === "401") response.writeHead(401, { "content-type": "application/json" }).end('{"error":"no"}');
  else {
    const afterMs = answerMs * (0.5 + Math.random()) * (behaviour === "slow" ? slowFactor : 1);
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    setTimeout(() => response.end(content + end), afterMs);
  }
}

const server = createServer((request, response) => {
  request.resume();
  // Health checks and the list of models succeed while the process runs.
  if (request.method === "GET") response.writeHead(200, { "content-type": "application/json" }).end('{"data":[]}');
  else request.on("end", () => answer(response));
});
process.on("message", (order: UpstreamOrder) => {
  behaviour = order.behaviour;
  process.send?.({ behaviour });
});
process.on("disconnect", () => process.exit());
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  const address = server.address();
  process.send?.({ port: typeof address === "object" && address !== null ? address.port : 0 });
});
