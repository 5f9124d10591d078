import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";
import type { ServiceFolder, ServiceProcess } from "../../support/service-process.js";

const key = "key-of-this-test";
const ownEnv = { LOG_LEVEL: "error", UIS_BOOTSTRAP_API_KEY: key };
const config = {
  responses: { keep: "1h" },
  models: [{ id: "echo", engine: "scripted", scripted: { token_delay_ms: 1 } }],
};
const clientsMax = 16;

/** Responses that were answered completely and marked as stored: JSON by id. */
type Answered = Map<string, string>;

/** Sends requests, every second one streamed, and continues the last response, until the service has ended. */
async function converse(client: ServiceClient, answered: Answered, number: number): Promise<void> {
  let previous: string | null = null;
  for (let turn = number; ; turn += 1) {
    const body = { model: "echo", input: `turn ${turn} of client ${number}`, previous_response_id: previous };
    const isStream = turn % 2 === 0;
    const text = await client.post("/v1/responses", { ...body, stream: isStream }).then(
      (answer) => answer.text,
      () => null,
    );
    if (text === null) return;
    const json = isStream ? completedIn(text) : text;
    if (json === null) return;
    const { id, store } = JSON.parse(json) as { id: string; store: boolean };
    expect([store, json]).toEqual([true, json]);
    answered.set(id, json);
    // A conversation of at most 20 responses, so that requests stay short.
    previous = turn % 20 === 0 ? null : id;
  }
}

/** The response in the last event of a stream; null if it is not completed. */
function completedIn(text: string): string | null {
  const last = text.trimEnd().split("\n\n").at(-1) ?? "";
  if (!last.startsWith("event: response.completed\n")) return null;
  return last.slice(last.indexOf('"response":') + '"response":'.length, -1);
}

/**
 * Kills a service (kill -9) under load; after each start it must have every response that was answered before. Returns the
 * number of responses.
 */
export async function killWhileStoring(
  served: ServiceFolder,
  rounds: number,
  env: Readonly<Record<string, string>> = {},
): Promise<number> {
  const answered: Answered = new Map();
  const start = (): Promise<ServiceProcess> => served.start(config, { env: { ...ownEnv, ...env } });
  let service = await start();
  for (let round = 0; round < rounds; round += 1) {
    const before = answered.size;
    const client = new ServiceClient(service.http, key);
    const numbers = Array.from({ length: clientsMax }, (_, number) => number);
    const conversations = numbers.map((number) => converse(client, answered, number));
    await eventually(() => answered.size >= before + 100, "100 responses", 60_000);
    await delay(Math.random() * 50);
    await service.kill();
    await Promise.all(conversations);
    service = await start();
    const again = new ServiceClient(service.http, key);
    for (const [id, json] of answered) {
      expect([round, (await again.get(`/v1/responses/${id}`)).text]).toEqual([round, json]);
    }
  }
  expect(await service.stop()).toBe(0);
  return answered.size;
}
