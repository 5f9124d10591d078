import { afterAll, beforeAll, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { type RunningService, startService } from "../../support/start-service.js";

const planted = {
  bootstrap: "bootstrap-CANARY-key",
  admin: "admin-CANARY-token-0123",
  prompt: "prompt-CANARY-text",
  answer: "answer-CANARY-text",
  wrongKey: "sk-uis-CANARYCANARYCANARYCANARYCANARYCANARYCANARYCANAR",
};

let service: RunningService;

beforeAll(async () => {
  const failing = (code: string) => ({ text: planted.answer, fail: { code, after_tokens: 1 } });
  service = await startService({
    logLevel: "trace",
    env: { UIS_BOOTSTRAP_API_KEY: planted.bootstrap, UIS_ADMIN_TOKEN: planted.admin },
    config: {
      models: [
        { id: "good", engine: "scripted", scripted: { text: planted.answer } },
        { id: "bad", engine: "scripted", scripted: failing("internal_error") },
        { id: "worse", engine: "scripted", scripted: failing("upstream_error") },
      ],
    },
  });
});

afterAll(async () => {
  await service.close();
});

async function post(body: string, authorization = `Bearer ${planted.bootstrap}`): Promise<number> {
  const headers = { authorization, "content-type": "application/json", cookie: "session=CANARY" };
  const response = await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body });
  await response.text();
  return response.status;
}

const chat = (model: string, more: object = {}) =>
  JSON.stringify({ model, messages: [{ role: "user", content: planted.prompt }], ...more });

it("no key, token, cookie, prompt or answer is in any log line, whatever goes wrong (SEC-18)", async () => {
  expect(await post(chat("good"))).toBe(200);
  expect(await post(chat("good", { stream: true }))).toBe(200);
  expect(await post(chat("bad"))).toBe(500);
  expect(await post(chat("worse", { stream: true }))).toBe(200);
  expect(await post(chat("good", { temperature: planted.prompt }))).toBe(400);
  expect(await post(`{"model":"${planted.prompt}`)).toBe(400);
  expect(await post(chat(planted.prompt))).toBe(404);
  expect(await post(chat("good"), `Bearer ${planted.wrongKey}`)).toBe(401);
  expect(await post(chat("good"), planted.bootstrap)).toBe(401);
  expect((await fetch(`${service.api}/models?api_key=${planted.wrongKey}`)).status).toBe(401);
  const env = { UIS_URL: service.http, UIS_ADMIN_TOKEN: planted.admin };
  expect((await uis(["keys", "create", "--name", "x", "--scope", "read", "--json"], { env })).code).toBe(0);

  expect(service.logs.length).toBeGreaterThan(8);
  for (const line of service.logs) expect(JSON.stringify(line)).not.toContain("CANARY");
});
