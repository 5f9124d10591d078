import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ChatCompletionParamsSchema, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { openWay, wayNames } from "./ways.js";

const { createChatCompletion, streamChatCompletion } = InferenceService.method;
const params = create(ChatCompletionParamsSchema, {
  model: "large",
  messages: [{ role: Role.USER, content: [{ part: { case: "text", value: "Hi" } }] }],
});

describe.each(wayNames)("fallback models over %s", (name) => {
  let service: RunningService;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          {
            id: "large",
            engine: "scripted",
            scripted: { text: "x", fail: { code: "upstream_error" } },
            fallbacks: ["small"],
          },
          { id: "small", engine: "scripted", scripted: { text: "Hello." } },
        ],
      },
    });
  });
  afterAll(() => service.close());

  it("are named with their deployment in the metadata, while the answer has the requested model (REL-21)", async () => {
    const way = openWay(name, service);
    const route = { "x-uis-model": "small", "x-uis-deployment": "embedded/small", "x-uis-attempts": "2" };
    const unary = await way.call(createChatCompletion, { params });
    expect(Object.fromEntries(unary.head)).toMatchObject(route);
    expect(unary.messages[0]?.completion?.model).toBe("large");
    const stream = await way.call(streamChatCompletion, { params });
    expect(Object.fromEntries(stream.head)).toMatchObject(route);
    expect(stream.messages[0]?.chunk?.model).toBe("large");
    way.close();
  });

  it("are not used with the header x-uis-fallback: off (REL-21)", async () => {
    const way = openWay(name, service);
    const { failure } = await way.call(createChatCompletion, { params }, { headers: { "x-uis-fallback": "off" } });
    expect(failure?.reason).toBe("UPSTREAM_ERROR");
    way.close();
  });
});
