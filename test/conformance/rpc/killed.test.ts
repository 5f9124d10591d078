import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { chatOf, streamChatCompletion } from "./chat-requests.js";
import { openWay, wayNames } from "./ways.js";

const models = [{ id: "hangs", engine: "scripted", scripted: { text: "One two three.", hang_after_tokens: 2 } }];

describe("a service that is killed in the middle of streams", () => {
  let served: ServiceFolder;
  let running: ServiceProcess;
  beforeAll(async () => {
    served = await ServiceFolder.create();
    running = await served.start({ models });
  });
  afterAll(() => served.remove());

  it("leaves every client with an error and no response that looks complete (GRPC-15)", async () => {
    const service = { http: running.http, grpc: running.line.grpc, key: running.key };
    let streaming = 0;
    const outcomes = wayNames.map((name) =>
      openWay(name, service).call(streamChatCompletion, chatOf("hangs"), {
        onMessage(count) {
          if (count !== 2) return;
          streaming += 1;
          if (streaming === wayNames.length) running.child.kill("SIGKILL");
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
