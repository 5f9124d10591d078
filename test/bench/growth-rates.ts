/** Latency with many connections, and whether retention and deliveries keep up with the highest rates. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type GrowthOptions, runMarkers } from "./growth-costs.js";
import { type LoadFigures, sendLoad } from "./growth-load.js";
import {
  chatRequest,
  type GrowthService,
  type Line,
  scriptedModel,
  startService,
  withServices,
} from "./growth-service.js";
import { startPinned } from "./pinned-process.js";

const otherCore = 1;
const connections = 32;

export interface RateOptions extends GrowthOptions {
  /** Minutes of load while expired records are deleted. */
  readonly minutes: number;
  /** Seconds of load while deliveries go to one endpoint. */
  readonly backlogSeconds: number;
}

const request = chatRequest();
const next = (): Buffer => request;

/** Requests per second when each connection sends its next request immediately after an answer. V8 has compiled before. */
async function highestRate(service: GrowthService, seconds: number): Promise<number> {
  await sendLoad(service.port, { connections, next, seconds });
  return (await sendLoad(service.port, { connections, next, seconds })).perSecond;
}

/** Share of the highest rate that thousands of connections send together. */
const busyShare = 0.6;

export async function connectionLatency(options: RateOptions): Promise<Line[]> {
  const { state, folder, seconds, scale } = options;
  const [few, many] = [Math.round(1_000 * scale), Math.round(5_000 * scale)];
  return await withServices([startService({ name: "connections", state, folder })], async ([service]) => {
    if (service === undefined) throw new Error("there is no service");
    const perSecond = busyShare * (await highestRate(service, 4));
    // Each connection sends at least four requests, of which the first is not counted.
    const load = (count: number): Promise<LoadFigures> =>
      sendLoad(service.port, { connections: count, next, perSecond, seconds: seconds + (5 * count) / perSecond });
    await load(few);
    const [of1000, of5000] = [await load(few), await load(many)];
    const times = of5000.p99Ms / of1000.p99Ms;
    const shown = [of1000, of5000].map(({ p99Ms }) => p99Ms.toFixed(1)).join(" / ");
    return [
      {
        what: `p99 of ${Math.round(perSecond)} requests a second over ${few.toLocaleString("en")} / ${many.toLocaleString("en")} connections`,
        state,
        measured: `${shown} ms, ${times.toFixed(2)} times`,
        aim: "at most 3 times",
        isHeld: times <= 3,
      },
    ];
  });
}

const dayMs = 86_400_000;
/** A record that is kept for longer than this after its retention counts as missed by the deletion. */
const behindMs = 60_000;

/** Markers of settled requests expire at the rate at which the service adds them. State in memory keeps none. */
export async function retentionBeside(options: RateOptions): Promise<Line[]> {
  const { state, folder, minutes } = options;
  const rate = await withServices([startService({ name: "retention-rate", state, folder })], async ([service]) =>
    service === undefined ? 0 : await highestRate(service, 3),
  );
  const expiring = Math.round(rate * 60 * minutes);
  const prepare = (dataDir: string): void => {
    const fromMs = Date.now() - dayMs;
    runMarkers(dataDir, "fill", expiring, fromMs, fromMs + minutes * 60_000);
  };
  const started = startService({ name: "retention", state, folder, prepare });
  const { answers, dataDir } = await withServices([started], async ([service]) => {
    if (service === undefined) throw new Error("there is no service");
    const load = await sendLoad(service.port, { connections, next, seconds: minutes * 60 });
    return { answers: load.answers, dataDir: service.dataDir };
  });
  const nowMs = Date.now();
  const counts = runMarkers(dataDir, "count", nowMs - dayMs, nowMs - dayMs - behindMs);
  const [expired = 0, behind = 0] = JSON.parse(counts) as number[];
  const perSecond = Math.round(answers / (minutes * 60));
  return [
    {
      what: `retention during ${perSecond} requests a second for ${minutes} minutes`,
      state,
      measured: `${expiring.toLocaleString("en")} records expired, ${expired.toLocaleString("en")} are left, ${behind.toLocaleString("en")} of them for more than a minute`,
      aim: "none for more than a minute",
      isHeld: behind === 0,
    },
  ];
}

/** Share of the highest rate at which one endpoint has to keep up. */
const deliveredShare = 0.8;

export async function endpointBacklog(options: RateOptions): Promise<Line[]> {
  const { state, folder, backlogSeconds } = options;
  const program = join(import.meta.dirname, "growth-receiver.ts");
  const receiver = await startPinned(otherCore, ["--import", "tsx", program], process.env);
  const url = `http://127.0.0.1:${receiver.ready["port"]}/`;
  const received = async (): Promise<number> => Number(await (await fetch(url)).text());
  const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
  const settings = { webhooks, models: [scriptedModel("chat")] };
  try {
    return await withServices([startService({ name: "backlog", state, folder, settings })], async ([service]) => {
      if (service === undefined) throw new Error("there is no service");
      await service.rpc("unified.webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", {
        webhookEndpoint: { account: "default", url, events: ["request.completed"], maxInFlight: 64 },
      });
      const highest = await highestRate(service, 4);
      const before = await quiet(received);
      const perSecond = deliveredShare * highest;
      const { answers } = await sendLoad(service.port, { connections, next, perSecond, seconds: backlogSeconds });
      const backlog = answers - ((await received()) - before);
      const endedMs = performance.now();
      const lost = answers - ((await quiet(received)) - before);
      const drainMs = performance.now() - endedMs;
      return [
        {
          what: `deliveries to one endpoint during ${Math.round(perSecond)} requests a second (0.8 of the highest) for ${backlogSeconds} s`,
          state,
          measured: `${backlog.toLocaleString("en")} of ${answers.toLocaleString("en")} wait at the end, all but ${lost} delivered ${(drainMs / 1_000).toFixed(1)} s later`,
          aim: "at most the deliveries of 2 s wait, and none is missing",
          isHeld: backlog <= 2 * perSecond && lost === 0,
        },
      ];
    });
  } finally {
    await receiver.stop();
  }
}

/** Resolves with the number of deliveries once none has arrived for a second. */
async function quiet(received: () => Promise<number>): Promise<number> {
  for (let last = -1; ; ) {
    const now = await received();
    if (now === last) return now;
    last = now;
    await delay(1_000);
  }
}
