import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ReadyLine, type ServeProcess, spawnServe } from "../../support/spawn-serve.js";
import { chatOf, streamChatCompletion } from "./chat-requests.js";
import { openWay, wayNames } from "./ways.js";

const config = `
models:
  - id: hangs
    engine: scripted
    scripted: { text: One two three., hang_after_tokens: 2 }
`;

describe("a service that is killed", () => {
  let folder: string;
  let serve: ServeProcess;
  let ready: ReadyLine;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-killed-"));
    await writeFile(join(folder, "uis.yaml"), config);
    serve = spawnServe({ cwd: folder });
    ready = await serve.ready;
  });
  afterAll(async () => {
    serve.child.kill("SIGKILL");
    await serve.exited;
    await rm(folder, { recursive: true });
  });

  it("in mid-stream every client sees an error, and no answer that looks complete (GRPC-15)", async () => {
    const service = { http: new URL(ready.api).origin, grpc: ready.grpc, key: ready.api_key?.secret ?? "" };
    let streaming = 0;
    const outcomes = wayNames.map((name) =>
      openWay(name, service).call(streamChatCompletion, chatOf("hangs"), {
        onMessage(count) {
          if (count !== 2) return;
          streaming += 1;
          if (streaming === wayNames.length) serve.child.kill("SIGKILL");
        },
      }),
    );
    for (const { messages, failure } of await Promise.all(outcomes)) {
      expect(failure).not.toBeNull();
      expect(messages.some(({ chunk }) => chunk?.usage !== undefined)).toBe(false);
    }
    const [grpc] = await Promise.all(outcomes);
    expect(grpc?.failure?.code).toBe(status.UNAVAILABLE);
  });
});
