import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../src/domain/engine/engine.js";
import { eventually } from "../../support/eventually.js";
import { chatRequest, never, runEvents, textOf } from "../../support/upstream/engine-calls.js";
import { type RawAnswer, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { done, finish, load, start, text } from "../../support/upstream/test-upstream.js";

describe("a stream from an upstream server", () => {
  /** An answer without an end, until the connection closes. */
  const endless: RawAnswer = (socket) => {
    socket.write(streamHead);
    const timer = setInterval(() => socket.write(text("word ")), 2);
    socket.on("close", () => clearInterval(timer));
  };

  it.each(["each", "joined"] as const)(
    "is closed immediately when the request is aborted, for a caller with deltas %s (REL-2)",
    async (deltas) => {
      const upstream = await start(endless);
      const model = await load(upstream);
      const abort = new AbortController();
      const running = runEvents(model, chatRequest({ deltas }), abort.signal);
      await eventually(() => upstream.requests.length === 1, "the request");
      await eventually(() => [...upstream.sockets].some(({ bytesWritten }) => bytesWritten > 1_000), "some text");
      const abortedAtMs = performance.now();
      abort.abort();
      const { error } = await running;
      expect(error).toMatchObject({ code: "aborted" });
      expect(error?.usage?.outTokens).toBeGreaterThan(0);
      expect(error?.usage?.promptTokens).toBeGreaterThan(0);
      await eventually(() => upstream.isIdle, "the closed connection");
      expect(performance.now() - abortedAtMs).toBeLessThan(1_000);
    },
  );

  it.each([
    ["before the connection", "connect"],
    ["before the answer", "answer"],
  ])("%s: an abort ends the request immediately (REL-2)", async (_, stage) => {
    const upstream = await start(() => {});
    // A server that never answers the TLS handshake keeps the connection from being established.
    const url = stage === "connect" ? upstream.url.replace("http:", "https:") : upstream.url;
    const model = await load(upstream, { url });
    const abort = new AbortController();
    const running = runEvents(model, chatRequest(), abort.signal);
    await eventually(() => upstream.sockets.size === 1, "the connection");
    if (stage === "answer") await eventually(() => upstream.requests.length === 1, "the request");
    abort.abort();
    expect((await running).error).toMatchObject({ code: "aborted", usage: { outTokens: 0 } });
    expect(model.stats().slotsBusy).toBe(0);
    if (stage === "answer") await eventually(() => upstream.isIdle, "the closed connection");
  });

  it("is not read while the reader processes an event, so that the server has to wait", async () => {
    const block = text("x".repeat(10_000));
    let written = 0;
    const upstream = await start((socket) => {
      socket.write(streamHead);
      const more = (): void => {
        for (let hasRoom = true; hasRoom && written < 2_000; written += 1) hasRoom = socket.write(block);
        if (written < 2_000) socket.once("drain", more);
        else socket.end(finish + done);
      };
      more();
    });
    const model = await load(upstream, { idleMs: 300 });
    let release = (): void => {};
    let taken = 0;
    const running = model.generate(chatRequest(), never, (event) => {
      if (event.type !== "text") return undefined;
      taken += 1;
      if (taken !== 3) return undefined;
      return new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    await eventually(() => taken === 3, "three events");
    let before = -1;
    // The buffers of both sockets fill, then nothing more is written.
    await eventually(async () => {
      const isSame = before === written;
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return isSame && before === written;
    }, "a server that waits");
    expect(written).toBeLessThan(1_500);
    expect(taken).toBe(3);
    release();
    await running;
    expect(taken).toBe(2_000);
  });

  it("a deadline does not run while the reader is slow, and runs again afterwards", async () => {
    const upstream = await start((socket) => void socket.write(streamHead + text("a") + text("b")));
    const model = await load(upstream, { idleMs: 100 });
    const seen: GenEvent[] = [];
    const running = model.generate(chatRequest(), never, (event) => {
      seen.push(event);
      return event.type === "text" && event.text === "a"
        ? new Promise((resolve) => setTimeout(resolve, 400))
        : undefined;
    });
    await expect(running).rejects.toMatchObject({ code: "timeout", usage: { outTokens: 2 } });
    expect(textOf(seen)).toBe("ab");
  });

  it("the first-byte limit applies between reports of progress, and the idle limit once the answer begins", async () => {
    const progress = sse({ choices: [], prompt_progress: { total: 9, cache: 0, processed: 4 } });
    let answer = true;
    const upstream = await start((socket) => {
      socket.write(streamHead + progress);
      if (answer) setTimeout(() => socket.end(text("a") + finish + done), 300);
    });
    const patient = await load(upstream, { idleMs: 50, firstByteMs: 10_000 });
    expect(textOf((await runEvents(patient, chatRequest())).events)).toBe("a");
    answer = false;
    const { error } = await runEvents(await load(upstream, { idleMs: 60_000, firstByteMs: 500 }), chatRequest());
    expect(error).toMatchObject({ code: "timeout", usage: { promptTokens: 9, outTokens: 0 } });
    expect(error?.message).toContain("first_byte");
  });

  it("an error about the request in the stream is reported as the caller's, unless content came before it", async () => {
    const message =
      "token_id(s) [999999] in logit_bias contain out-of-vocab token ids (parameter=logit_bias, value=[999999])";
    const reported = (code: number) => sse({ error: { message, type: "BadRequestError", param: "logit_bias", code } });
    const failed = async (bytes: string) => {
      const model = await load(await start((socket) => void socket.end(streamHead + bytes + done)));
      return (await runEvents(model, chatRequest())).error;
    };
    expect(await failed(reported(400))).toMatchObject({
      code: "bad_input",
      param: "logit_bias",
      message: "token_id(s) [999999] in logit_bias contain out-of-vocab token ids",
    });
    expect(await failed(`event: error\n${reported(400)}`)).toMatchObject({ code: "bad_input" });
    expect(await failed(reported(500))).toMatchObject({ code: "upstream_error", retryable: true });
    expect(await failed(text("a") + reported(400))).toMatchObject({ code: "upstream_error", usage: { outTokens: 1 } });
  });

  it("an error of the connection is reported after the events that arrived before it", async () => {
    const upstream = await start((socket) => {
      socket.write(streamHead + text("a") + text("b"), () => socket.resetAndDestroy());
    });
    const model = await load(upstream);
    const seen: GenEvent[] = [];
    const running = model.generate(chatRequest(), never, async (event) => {
      await new Promise((resolve) => setImmediate(resolve));
      seen.push(event);
    });
    await expect(running).rejects.toMatchObject({ code: "upstream_error" });
    expect(textOf(seen)).toBe("ab");
  });

  it("rejects with the error that the reader throws or rejects with, and closes the connection", async () => {
    const upstream = await start(endless);
    const model = await load(upstream);
    const fails: ((event: GenEvent) => Promise<void> | undefined)[] = [
      () => {
        throw new Error("the reader failed");
      },
      () => Promise.reject(new Error("the reader failed")),
    ];
    for (const emit of fails) {
      await expect(model.generate(chatRequest(), never, emit)).rejects.toThrow("the reader failed");
      await eventually(() => upstream.isIdle, "the closed connection");
      expect(model.stats().slotsBusy).toBe(0);
    }
  });
});
