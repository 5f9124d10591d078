import { describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { makeAuthority } from "../../support/receivers/authority.js";
import { startReceiver } from "../../support/receivers/receiver.js";
import { closing, openSender, post } from "./sending.js";

const good = { status: 200 } as const;

describe("reused sockets", () => {
  it("consecutive requests use one connection, with and without TLS", async () => {
    const authority = closing(makeAuthority());
    const sender = openSender({ ca: authority.ca });
    for (const tls of [null, authority.issue(["127.0.0.1"])]) {
      const receiver = closing(await startReceiver(tls === null ? {} : { tls }));
      for (let count = 0; count < 5; count += 1) {
        expect(await post(sender, receiver.url)).toMatchObject({ status: 200, ip: "127.0.0.1" });
      }
      expect([receiver.requests.length, receiver.connections]).toEqual([5, 1]);
    }
  });

  it.each(["reset", "close"] as const)(
    "a socket that closes (%s) before a byte of the response is replaced once, in the same attempt (WH-24)",
    async (trick) => {
      const authority = closing(makeAuthority());
      const sender = openSender({ ca: authority.ca });
      for (const tls of [null, authority.issue(["127.0.0.1"])]) {
        const answer = (_: unknown, before: number) => (before === 1 ? trick : good);
        const receiver = closing(await startReceiver(tls === null ? { answer } : { answer, tls }));
        await post(sender, receiver.url);
        expect(await post(sender, receiver.url)).toMatchObject({ status: 200, error: null, ip: "127.0.0.1" });
        expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
        expect(new Set(receiver.requests.map(({ rawBody }) => rawBody.toString())).size).toBe(1);
      }
    },
  );

  it("a socket is replaced only once, and a new one never (WH-24)", async () => {
    const receiver = closing(await startReceiver({ answer: (_, before) => (before === 0 ? good : "reset") }));
    const sender = openSender();
    await post(sender, receiver.url);
    expect(await post(sender, receiver.url)).toMatchObject({ status: null, error: "reset" });
    expect(receiver.requests).toHaveLength(3);
    expect(await post(sender, receiver.url)).toMatchObject({ status: null, error: "reset" });
    expect(receiver.requests).toHaveLength(4);
  });

  it("a socket that closes after a byte of the response is not replaced (WH-24)", async () => {
    const receiver = closing(
      await startReceiver({ answer: (_, before) => (before === 0 ? good : "reset in the head") }),
    );
    const sender = openSender();
    await post(sender, receiver.url);
    expect(await post(sender, receiver.url)).toMatchObject({ status: null, error: "reset" });
    expect(receiver.requests).toHaveLength(2);
  });

  it("the replacement has the rest of the budget (WH-24)", async () => {
    const budgetMs = 400;
    const receiver = closing(await startReceiver());
    receiver.answerWith((_, before) => (before === 0 ? good : before === 1 ? "close" : "hang"));
    const sender = openSender();
    await post(sender, receiver.url);
    const startedAtMs = performance.now();
    expect(await post(sender, receiver.url, budgetMs)).toMatchObject({ error: "timeout" });
    expect(performance.now() - startedAtMs).toBeLessThan(5 * budgetMs);
    expect(receiver.requests).toHaveLength(3);
  });

  it("a shorter idle timeout of the receiver is respected", async () => {
    const receiver = closing(await startReceiver({ keepAliveMs: 1_000 }));
    const sender = openSender();
    await post(sender, receiver.url);
    await eventually(() => receiver.open === 0, "the end of the idle connection");
    expect(await post(sender, receiver.url)).toMatchObject({ status: 200 });
  });

  it("a connection that receives data without a request is closed (SEC-16)", async () => {
    const receiver = closing(await startReceiver({ answer: "flood after the answer" }));
    expect(await post(openSender(), receiver.url)).toMatchObject({ status: 200, response: "fine" });
    await eventually(() => receiver.open === 0, "the end of the connection", 2_000);
  });

  it("at most 256 sockets are idle, 64 of one host", async () => {
    const receivers = await Promise.all(Array.from({ length: 6 }, () => startReceiver().then(closing)));
    const sender = openSender();
    for (const { url } of receivers) await Promise.all(Array.from({ length: 70 }, () => post(sender, url)));
    const open = () => receivers.map((receiver) => receiver.open);
    await eventually(() => open().reduce((sum, count) => sum + count) <= 256, "the end of those beyond");
    expect(Math.max(...open())).toBeLessThanOrEqual(64);
  });
});
