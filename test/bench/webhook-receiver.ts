/**
 * A receiver of webhooks that checks every signature: `webhook-receiver.ts <secret>` prints `{"port":n}`. Without a secret it
 * accepts everything. GET returns how many it accepted and rejected.
 */
import { createServer } from "node:http";
import { verifyWebhook } from "../../src/lib/webhook-signature.js";

const secret = process.argv[2] ?? "";
const counts = { taken: 0, refused: 0 };

const server = createServer((req, res) => {
  if (req.method === "GET") {
    res.end(JSON.stringify(counts));
    return;
  }
  const pieces: Buffer[] = [];
  req.on("data", (piece: Buffer) => pieces.push(piece));
  req.on("end", () => {
    const header = String(req.headers["service-signature"] ?? "");
    const isValid = secret === "" || verifyWebhook({ secret, header, body: Buffer.concat(pieces) }).valid;
    counts[isValid ? "taken" : "refused"] += 1;
    res.writeHead(isValid ? 200 : 400).end();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  process.stdout.write(`${JSON.stringify({ port })}\n`);
});
process.on("SIGTERM", () => process.exit(0));
