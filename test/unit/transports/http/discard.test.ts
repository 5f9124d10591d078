import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { expect, it } from "vitest";
import { answerRaw, DiscardPace } from "../../../../src/transports/http/answer.js";
import { FakeClock } from "../../../support/fake-clock.js";

/** A body that is read in pieces of 64 KiB while it is not paused. */
class Body {
  isPaused = false;
  bytes = 0;
  readonly #pace: DiscardPace;

  constructor(pace: DiscardPace) {
    this.#pace = pace;
  }

  pause(): this {
    this.isPaused = true;
    return this;
  }

  resume(): this {
    this.isPaused = false;
    return this;
  }

  readAll(): void {
    while (!this.isPaused) {
      this.bytes += 65_536;
      this.#pace.took(this, 65_536);
    }
  }
}

function isRead({ isPaused }: Body): boolean {
  return !isPaused;
}

it("unwanted bodies of all connections together are discarded at 50 MB a second at most, in turns (E-1)", () => {
  const clock = new FakeClock();
  const pace = new DiscardPace((ms, run) => clock.after(ms, run));
  const bodies = Array.from({ length: 200 }, () => new Body(pace));
  const total = (): number => bodies.reduce((sum, body) => sum + body.bytes, 0);
  // Every connection is read once before it can be paused.
  for (const body of bodies) body.readAll();
  const firstBytes = total();
  for (let elapsedMs = 0; elapsedMs < 1_000; elapsedMs += 10) {
    clock.advance(10);
    // Each turn resumes the next body.
    for (let reading = bodies.find(isRead); reading !== undefined; reading = bodies.find(isRead)) reading.readAll();
  }
  expect(total() - firstBytes).toBeGreaterThan(45_000_000);
  expect(total() - firstBytes).toBeLessThan(55_000_000);
  const each = bodies.map(({ bytes }) => bytes);
  expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(9 * 65_536);
});

it("a body that is not read any more is not resumed", () => {
  const clock = new FakeClock();
  const pace = new DiscardPace((ms, run) => clock.after(ms, run));
  const [left, kept] = [new Body(pace), new Body(pace)];
  left.readAll();
  kept.readAll();
  pace.leave(left);
  clock.advance(10);
  expect([left.isPaused, kept.isPaused]).toEqual([true, false]);
});

/** Sends 64 KiB again and again until the server has closed the connection. */
async function flood(port: number, head: string): Promise<string> {
  // It goes on sending after the answer.
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const piece = Buffer.alloc(65_536, "x");
  let answer = "";
  socket.on("data", (data) => {
    answer += data;
  });
  const send = (): void => {
    while (socket.writable && socket.write(piece));
  };
  // The server resets the connection when it closes it with unread bytes.
  socket.on("error", () => {}).on("drain", send);
  socket.write(head);
  send();
  await new Promise((closed) => socket.once("close", closed));
  return answer;
}

it("what follows a malformed head is discarded within the same bounds, and its client gets the answer (E-1)", async () => {
  const sockets = new Set<Duplex>();
  const server = createServer().on("clientError", (_, socket) => {
    if (sockets.has(socket)) return;
    sockets.add(socket);
    answerRaw(socket, 400, {}, "{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const bytesRead = (): number => [...sockets].reduce((sum, socket) => sum + (socket as Socket).bytesRead, 0);
  expect(await flood(port, "no HTTP at all\r\n\r\n")).toMatch(/^HTTP\/1\.1 400 .*\{\}$/s);
  expect(bytesRead()).toBeLessThan(34 * 1024 * 1024);
  const aloneBytes = bytesRead();
  await Promise.all(Array.from({ length: 8 }, () => flood(port, "no HTTP at all\r\n\r\n")));
  expect(sockets.size).toBe(9);
  // A second at 50 MB a second, and as much for a late timer.
  expect(bytesRead() - aloneBytes).toBeLessThan(100_000_000);
  server.close();
});
