import { describe, expect, it } from "vitest";
import { startReceiver } from "../../support/receivers/receiver.js";
import { closing, openSender, post } from "./sending.js";

describe("the response of a receiver", () => {
  it("the request is a POST with the given bytes and headers (WH-19)", async () => {
    const receiver = closing(await startReceiver());
    const sender = openSender();
    const body = '{"text":"grün 🦊","last":1}';
    const headers = {
      "content-type": "application/json",
      "service-signature": "t=1,v1=00",
      "user-agent": "uis-test/1",
    };
    const result = await sender.send({
      account: "acme",
      url: `${receiver.url}hook?a=1&b=2`,
      headers,
      body,
      budgetMs: 5_000,
    });

    expect(result).toMatchObject({ status: 200, error: null, ip: "127.0.0.1", response: "", retryAfter: null });
    const [request] = receiver.requests;
    expect(request).toMatchObject({ method: "POST", path: "/hook?a=1&b=2" });
    expect(request?.rawBody.toString("utf8")).toBe(body);
    expect(request?.headers).toEqual({
      ...headers,
      host: `127.0.0.1:${receiver.port}`,
      "content-length": String(Buffer.byteLength(body)),
      connection: "keep-alive",
    });
  });

  it.each([200, 201, 202, 204, 226, 299, 301, 304, 400, 401, 404, 410, 429, 500, 503, 599])(
    "status %i is reported unchanged (WH-19)",
    async (status) => {
      const receiver = closing(await startReceiver({ answer: { status } }));
      expect(await post(openSender(), receiver.url)).toMatchObject({ status, error: null });
    },
  );

  it("a redirect is an answer, and its target is not called (WH-22, SEC-16)", async () => {
    const trap = closing(await startReceiver());
    const receiver = closing(await startReceiver());
    const sender = openSender();
    for (const status of [301, 302, 303, 307, 308]) {
      receiver.answerWith({ status, headers: { location: trap.url }, body: "moved" });
      expect(await post(sender, receiver.url)).toMatchObject({ status, error: null, response: "moved" });
    }
    expect([trap.connections, receiver.requests.length]).toEqual([0, 5]);
  });

  it("the first 2 KiB of the body are stored as text, and the connection is reused (WH-43)", async () => {
    const receiver = closing(await startReceiver({ answer: { status: 500, body: "ü".repeat(3_000) } }));
    const sender = openSender();
    expect((await post(sender, receiver.url)).response).toBe("ü".repeat(1_024));
    await post(sender, receiver.url);
    expect(receiver.connections).toBe(1);
  });

  it("reading stops after 16 KiB of body, and the connection is not reused (WH-21)", async () => {
    const receiver = closing(await startReceiver({ answer: { status: 200, body: "a".repeat(16_384) } }));
    const sender = openSender();
    await post(sender, receiver.url);
    receiver.answerWith({ status: 200, body: "a".repeat(16_385) });
    await post(sender, receiver.url);
    await post(sender, receiver.url);
    expect(receiver.connections).toBe(2);
  });

  it("bodies are not decompressed, and cookies are not stored (SEC-16)", async () => {
    const receiver = closing(await startReceiver());
    receiver.answerWith({ status: 200, headers: { "set-cookie": "a=b", "content-encoding": "gzip" }, body: "plain" });
    const sender = openSender();
    expect((await post(sender, receiver.url)).response).toBe("plain");
    await post(sender, receiver.url);
    const { headers } = receiver.requests[1] ?? {};
    expect([headers?.cookie, headers?.["accept-encoding"]]).toEqual([undefined, undefined]);
  });

  it("Retry-After is recorded unchanged, up to 64 characters", async () => {
    const receiver = closing(await startReceiver({ answer: { status: 503, headers: { "retry-after": "120" } } }));
    const sender = openSender();
    expect((await post(sender, receiver.url)).retryAfter).toBe("120");
    receiver.answerWith({ status: 429, headers: { "retry-after": "x".repeat(500) } });
    expect((await post(sender, receiver.url)).retryAfter).toBe("x".repeat(64));
  });

  it("latency is the time until the response headers, in whole milliseconds", async () => {
    const receiver = closing(await startReceiver({ answer: { status: 200, afterMs: 60 } }));
    const { latencyMs } = await post(openSender(), receiver.url);
    expect(Number.isInteger(latencyMs)).toBe(true);
    expect(latencyMs).toBeGreaterThanOrEqual(59);
    expect(latencyMs).toBeLessThan(1_000);
  });

  it("a closed sender aborts running attempts and starts no others", async () => {
    const receiver = closing(await startReceiver({ answer: "hang" }));
    const sender = openSender();
    const underWay = post(sender, receiver.url);
    await receiver.until(1);
    sender.close();
    expect(await underWay).toMatchObject({ status: null, error: "reset" });
    expect(await post(sender, receiver.url)).toMatchObject({ status: null, error: "reset", ip: null });
    expect(receiver.requests).toHaveLength(1);
  });
});
