import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** The baseline: node:http that only parses a JSON body and returns it. */
const server = createServer((req, res) => {
  const parts: Buffer[] = [];
  req.on("data", (part: Buffer) => parts.push(part));
  req.on("end", () => {
    const body = JSON.stringify(JSON.parse(Buffer.concat(parts).toString()));
    res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    res.end(body);
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});
process.once("SIGTERM", () => process.exit(0));
