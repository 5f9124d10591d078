import { connect, type Socket } from "node:net";

export function requestText(port: number, key: string, model: string): string {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hi" }] });
  return [
    "POST /v1/chat/completions HTTP/1.1",
    `host: 127.0.0.1:${port}`,
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "",
    body,
  ].join("\r\n");
}

/** A client that sends its request and never reads. */
export function stuckReader(port: number, key: string, model: string): Socket {
  const socket = connect(port, "127.0.0.1", () => socket.write(requestText(port, key, model)));
  // Errors of a closed connection are ignored.
  socket.on("error", () => {});
  return socket.pause();
}

/** Time from sending a request to the first byte of content, over a new connection. */
export function timeToFirstToken(port: number, key: string, model: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const startedMs = performance.now();
    const socket = connect(port, "127.0.0.1", () => socket.write(requestText(port, key, model)));
    let seen = "";
    socket.on("data", (data: Buffer) => {
      seen += data.toString("latin1");
      if (!seen.includes('"content":"o')) return;
      resolve(performance.now() - startedMs);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

export async function timesToFirstToken(count: number, port: number, key: string, model: string): Promise<number[]> {
  const timesMs: number[] = [];
  for (let i = 0; i < count; i++) timesMs.push(await timeToFirstToken(port, key, model));
  return timesMs.sort((a, b) => a - b);
}

/** Reads one whole stream without pauses. Resolves with its number of bytes. */
export function readAll(port: number, key: string, model: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(requestText(port, key, model)));
    let bytes = 0;
    let tail = "";
    socket.on("data", (data: Buffer) => {
      bytes += data.length;
      tail = (tail + data.subarray(-64).toString("latin1")).slice(-64);
      if (!tail.includes("data: [DONE]")) return;
      resolve(bytes);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}
