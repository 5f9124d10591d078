import { describe, expect, it } from "vitest";
import { addAnswerHeaders, answerMetadata, routeFields } from "../../../../src/domain/metering/limit-response.js";

const route = { deployment: "gpu/llama", attempts: 2, fallbackModel: null };

describe("headers of an answer", () => {
  it("name the deployment and the attempts, and the model only if it is a fallback", () => {
    const named = ["x-uis-deployment", "gpu/llama", "x-uis-attempts", "2"];
    expect(routeFields(route)).toEqual(named);
    expect(routeFields({ ...route, fallbackModel: "small" })).toEqual([...named, "x-uis-model", "small"]);
  });

  it("contain the rate limits", () => {
    const head = { ...route, queueMs: 0, degraded: true };
    expect(answerMetadata(head)).toEqual([...routeFields(route), "x-ratelimit-degraded", "1"]);
    const fields: string[] = [];
    addAnswerHeaders(fields, head);
    expect(fields).toEqual(answerMetadata(head));
  });

  it("name no deployment if the request ran on none", () => {
    const head = { ...route, attempts: 0, queueMs: 0, degraded: false };
    expect(answerMetadata(head)).toEqual([]);
  });

  it.each([
    ["gpu/Qwen/Qwen3-0.6B:latest#2", "gpu/Qwen/Qwen3-0.6B:latest#2"],
    ["gpu/modèle 1", "gpu/mod%C3%A8le%201"],
    ["gpu/a\r\nb\ud800", "gpu/a%0D%0Ab%EF%BF%BD"],
  ])("encode the deployment id %j as %j, which every protocol can send", (deployment, value) => {
    expect(routeFields({ ...route, deployment }).slice(0, 2)).toEqual(["x-uis-deployment", value]);
  });
});
