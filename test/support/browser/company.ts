import { rm } from "node:fs/promises";
import { join } from "node:path";
import { vi } from "vitest";
import type { Settlement } from "../../../src/domain/metering/ledger.js";
import { writeScriptedGguf } from "../gguf/scripted-gguf.js";
import { settlement } from "../records.js";
import { ServiceClient } from "../service-client.js";
import type { RawUpstream } from "../upstream/raw-upstream.js";
import { modelList, startServerWith } from "../upstream/server-paths.js";
import {
  assistant,
  companyDays,
  companyEndpoints,
  companyKeys,
  companyModels,
  companyThresholds,
  companyUse,
  firstKeyNames,
  gpuModel,
  keptModel,
  summarizer,
} from "./company-data.js";
import { makeDeliveries } from "./company-deliveries.js";
import { companyRequests } from "./company-requests.js";
import { type DashboardRun, startDashboard } from "./dashboard.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** User agent of the administrator's browser. */
export const companyBrowser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

const companyTablet =
  "Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/604.1";

export interface Company extends DashboardRun {
  /** Sends typical traffic until the returned function is called; resolves after the last answers. */
  startTraffic(): () => Promise<void>;
}

/** Starts a service with weeks of history and deliveries in every final state. It sends no deliveries itself. */
export async function startCompany(): Promise<Company> {
  vi.useFakeTimers({ toFake: ["Date"] });
  try {
    timeIs(24 * dayMs);
    const run = await startDashboard({
      config: {
        models: companyModels,
        webhooks: { deliver: false },
        engine: { threads: 1 },
        state: { durability: "every-write" },
        requests: { keep: 1_000, keep_content: true },
      },
    });
    const gpu = await startGpuServer();
    const keys = await live(run, gpu.url);
    // The account of this key has no endpoints, so its requests create no deliveries.
    const { secret } = keyNamed(keys, "Data team notebook");
    const close = async (): Promise<void> => {
      await run.close();
      await gpu.close();
    };
    return { ...run, close, startTraffic: () => startTraffic(new ServiceClient(run.service.http, secret)) };
  } finally {
    vi.useRealTimers();
  }
}

/** Sets the wall clock, which the service in this process uses, to the given time before now. It never goes back. */
function timeIs(agoMs: number): void {
  vi.setSystemTime(vi.getRealSystemTime() - agoMs);
}

/** Replays the history in order. */
async function live(run: DashboardRun, gpuUrl: string): Promise<readonly MadeKey[]> {
  const { http, adminToken, key, service } = run.service;
  const admin = new ServiceClient(http, adminToken);
  const keys: MadeKey[] = [];
  const use = async (secret: string): Promise<void> => {
    await new ServiceClient(http, secret).get("/v1/models");
  };
  await renameFirstKeys(run);
  const events: Happening[] = [
    ...companyKeys.map(({ daysAgo, ...message }) => ({
      agoMs: daysAgo * dayMs,
      act: async () => void keys.push(await makeKey(admin, message)),
    })),
    ...companyEndpoints.map(({ daysAgo, ...webhookEndpoint }) => ({
      agoMs: daysAgo * dayMs,
      act: () => must(admin, "webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", { webhookEndpoint }),
    })),
    ...companyThresholds.map(({ daysAgo, key: name, ...threshold }) => ({
      agoMs: daysAgo * dayMs,
      act: () => {
        const owner = name === null ? {} : { apiKeyId: keyNamed(keys, name).id };
        return must(admin, "admin.v1.ThresholdService/CreateThreshold", { threshold: { ...threshold, ...owner } });
      },
    })),
    { agoMs: 6 * dayMs, act: () => keepModel(run, admin) },
    { agoMs: 4 * dayMs, act: () => addUpstream(admin, gpuUrl) },
    { agoMs: 2 * dayMs, act: () => use(key) },
    { agoMs: 9 * hourMs, act: () => revoke(admin, keyNamed(keys, "Old mobile app")) },
    { agoMs: 8 * hourMs, act: () => use(keyNamed(keys, "Nightly reports").secret) },
  ];
  for (const { agoMs, act } of events.sort((one, other) => other.agoMs - one.agoMs)) {
    timeIs(agoMs);
    await act();
  }
  await makeDeliveries(service.parts.state, timeIs);
  timeIs(minuteMs);
  for (const name of ["Support assistant", "Search index"]) await use(keyNamed(keys, name).secret);
  timeIs(0);
  await useForDays(run, keys);
  await service.parts.state.requestLogs.append(companyRequests(keyNamed(keys, "Search index").id, Date.now()), 1_000);
  await service.parts.sessions.begin("admin", { address: "203.0.113.7", userAgent: companyTablet });
  return keys;
}

interface Happening {
  readonly agoMs: number;
  readonly act: () => Promise<unknown>;
}

function startTraffic(client: ServiceClient): () => Promise<void> {
  let isOver = false;
  const askOn = async (model: string): Promise<void> => {
    while (!isOver) await client.chat(model, { stream: true });
  };
  const callers = [assistant, assistant, assistant, summarizer, summarizer].map(askOn);
  return async () => {
    isOver = true;
    await Promise.all(callers);
  };
}

interface MadeKey {
  readonly name: string;
  readonly id: string;
  readonly secret: string;
}

async function makeKey(admin: ServiceClient, message: { readonly name: string }): Promise<MadeKey> {
  const { apiKey, secret } = await must(admin, "admin.v1.ApiKeyService/CreateApiKey", message);
  return { name: message.name, id: (apiKey as MadeKey).id, secret: String(secret) };
}

const revoke = (admin: ServiceClient, { id }: MadeKey) => must(admin, "admin.v1.ApiKeyService/RevokeApiKey", { id });

/** Renames the keys that every test service has. */
async function renameFirstKeys({ service }: DashboardRun): Promise<void> {
  const { apiKeys } = service.service.parts;
  const { records } = await apiKeys.list({ account: null, pageSize: 0, pageToken: "" });
  for (const [index, { id }] of records.entries()) await apiKeys.update(id, { name: firstKeyNames[index] ?? "" });
}

/** A vLLM server with one model. */
function startGpuServer(): Promise<RawUpstream> {
  return startServerWith({ "/v1/models": modelList({ id: gpuModel, owned_by: "vllm", max_model_len: 131_072 }) });
}

const addUpstream = (admin: ServiceClient, url: string) =>
  must(admin, "admin.v1.UpstreamService/CreateUpstream", { upstream: { name: "gpu-1", url, kind: "vllm" } });

/** Imports a model of the embedded engine. */
async function keepModel({ service }: DashboardRun, admin: ServiceClient): Promise<void> {
  const path = join(service.dataDir, `${keptModel}.gguf`);
  await writeScriptedGguf(path, { text: "A proxy answers on behalf of other servers.", contextLength: 4_096 });
  await must(admin, "admin.v1.ModelAdminService/ImportModel", { path, id: keptModel });
  await rm(path);
  await must(admin, "admin.v1.ModelAdminService/LoadModel", { id: keptModel });
}

/** Writes directly into the ledger, because past days cannot be created otherwise. */
async function useForDays({ service }: DashboardRun, keys: readonly MadeKey[]): Promise<void> {
  const { ledger } = service.service.parts.state;
  const nowMs = vi.getRealSystemTime();
  for (const [day, percent] of companyDays.entries()) {
    const endedAtMs = nowMs - (companyDays.length - 1 - day) * dayMs;
    const ends: Settlement[] = [];
    for (const [line, { key, model, requests, tokensIn, tokensOut }] of companyUse.entries()) {
      const price = companyModels.find(({ id }) => id === model)?.prices ?? { input: 0 };
      for (let index = 0; index < (requests * percent) / 100; index++) {
        const promptTokens = tokensIn + ((index * 37) % 90);
        const completionTokens = tokensOut;
        const costNano = promptTokens * price.input + completionTokens * (price.output ?? 0);
        const keyId = keyNamed(keys, key).id;
        const counts = { promptTokens, completionTokens, costNano, cachedTokens: Math.floor(tokensIn / 5) };
        const requestId = `req_week_${day}_${line}_${index}`;
        ends.push(settlement(requestId, { account: "default", keyId, model, endedAtMs, ...counts }));
      }
    }
    await Promise.all(ends.map((end) => ledger.settle(end)));
  }
}

function keyNamed(keys: readonly MadeKey[], name: string): MadeKey {
  const found = keys.find((key) => key.name === name);
  if (found === undefined) throw new Error(`no key ${name}`);
  return found;
}

async function must(admin: ServiceClient, rpc: string, message: object): Promise<Readonly<Record<string, unknown>>> {
  const { status, text, json } = await admin.rpc(`unified.${rpc}`, message);
  if (status !== 200) throw new Error(`${rpc}: ${text}`);
  return json;
}
