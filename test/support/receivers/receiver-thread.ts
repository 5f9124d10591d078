import { once } from "node:events";
import { Worker } from "node:worker_threads";

/** A receiver that accepts everything and stores nothing. It runs in a separate thread, so that it does not block this one. */
export interface ReceiverThread {
  readonly port: number;
  close(): Promise<void>;
}

/** Plain JavaScript, because a worker has no TypeScript loader. */
const script = `
const { createServer } = require("node:http");
const { parentPort } = require("node:worker_threads");
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => response.writeHead(200).end());
});
server.keepAliveTimeout = 60_000;
server.listen(0, "0.0.0.0", () => parentPort.postMessage(server.address().port));
`;

/** Listens on all addresses of this machine. */
export async function startReceiverThread(): Promise<ReceiverThread> {
  const worker = new Worker(script, { eval: true });
  const [port] = (await once(worker, "message")) as [number];
  return {
    port,
    async close() {
      await worker.terminate();
    },
  };
}
