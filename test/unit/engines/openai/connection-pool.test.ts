import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { expect, it, onTestFinished } from "vitest";
import { ConnectionPool } from "../../../../src/engines/openai/connection/connection-pool.js";

const ageMaxMs = 60_000;

/** A server that answers when the test wants it, and a pool of connections to it. */
async function setUp() {
  const sockets: Socket[] = [];
  const waiting: ServerResponse[] = [];
  const ports: number[] = [];
  const server = createServer((req, res) => {
    ports.push(req.socket.remotePort ?? 0);
    waiting.push(res);
  });
  server.on("connection", (socket) => sockets.push(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const time = { nowMs: 1_000 };
  const { port } = server.address() as AddressInfo;
  const pool = new ConnectionPool(`http://127.0.0.1:${port}`, {
    clock: { monotonic: () => time.nowMs },
    ageMaxMs,
    connect: {},
    client: {},
  });
  onTestFinished(async () => {
    await pool.destroy();
    server.closeAllConnections();
    server.close();
  });
  return { server, pool, sockets, waiting, ports, time };
}

type Scene = Awaited<ReturnType<typeof setUp>>;

/** Sends a request. Resolves with the status, or rejects. */
function send({ pool }: Pick<Scene, "pool">, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    let status = 0;
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart(_, code) {
        status = code;
      },
      onResponseData() {},
      onResponseEnd: () => resolve(status),
      onResponseError: (_, error) => reject(error),
    };
    pool.dispatch({ method: "GET", path: "/", headers, body: null, onConnection: () => {} }, handler);
  });
}

/** Sends requests that run at the same time, and answers them. */
async function sendTogether(scene: Scene, count: number): Promise<void> {
  const { waiting } = scene;
  const sent = Array.from({ length: count }, () => send(scene));
  await expect.poll(() => waiting).toHaveLength(count);
  for (const res of waiting.splice(0)) res.end();
  expect(await Promise.all(sent)).toEqual(Array.from({ length: count }, () => 200));
  // undici says that a connection is free after the end of its answer.
  await setImmediate();
}

it("opens a connection for each request at the same time, and uses the idle one that was used last", async () => {
  const scene = await setUp();
  await sendTogether(scene, 3);
  expect(scene.pool.size).toBe(3);
  for (let i = 0; i < 5; i += 1) await sendTogether(scene, 1);
  expect(scene.sockets).toHaveLength(3);
  expect(new Set(scene.ports.slice(3)).size).toBe(1);
  await sendTogether(scene, 3);
  expect(scene.sockets).toHaveLength(3);
});

it("keeps nothing of a connection that was closed while it was idle", async () => {
  const scene = await setUp();
  await sendTogether(scene, 3);
  for (const socket of scene.sockets) socket.destroy();
  await expect.poll(() => scene.pool.size).toBe(0);
  await sendTogether(scene, 1);
  expect(scene.sockets).toHaveLength(4);
});

it("keeps nothing of a connection that its server closes with the answer", async () => {
  const scene = await setUp();
  const sent = send(scene);
  await expect.poll(() => scene.waiting).toHaveLength(1);
  scene.waiting.splice(0)[0]?.setHeader("connection", "close").end();
  expect(await sent).toBe(200);
  await expect.poll(() => scene.pool.size).toBe(0);
});

it("closes an old connection instead of using it again", async () => {
  const scene = await setUp();
  await sendTogether(scene, 1);
  scene.time.nowMs += ageMaxMs - 1;
  await sendTogether(scene, 1);
  expect(scene.sockets).toHaveLength(1);
  scene.time.nowMs += 1;
  await sendTogether(scene, 1);
  expect(scene.sockets).toHaveLength(2);
  expect(scene.pool.size).toBe(1);
  await expect.poll(() => scene.sockets[0]?.destroyed).toBe(true);
});

it("is not occupied by a request that is rejected before it is sent", async () => {
  const scene = await setUp();
  await sendTogether(scene, 1);
  await expect(send(scene, { "x-text": "two\nlines" })).rejects.toThrow("invalid");
  expect(scene.pool.size).toBe(1);
  await sendTogether(scene, 1);
  expect(scene.sockets).toHaveLength(1);
});

it("keeps nothing of a failed attempt to connect", async () => {
  const scene = await setUp();
  scene.server.close();
  await expect(send(scene)).rejects.toMatchObject({ code: "ECONNREFUSED" });
  await expect.poll(() => scene.pool.size).toBe(0);
});

it("fails running requests when it is destroyed, and accepts no others", async () => {
  const scene = await setUp();
  await sendTogether(scene, 1);
  const sent = send(scene).catch((error: Error) => error);
  await expect.poll(() => scene.waiting).toHaveLength(1);
  await scene.pool.destroy();
  expect(await sent).toBeInstanceOf(Error);
  await expect(send(scene)).rejects.toThrow("the connections are closed");
});
