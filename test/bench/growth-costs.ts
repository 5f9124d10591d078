/** The processor time of a request in services with many endpoints, thresholds, keys, markers or models. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { type LoadPlan, sendLoad } from "./growth-load.js";
import {
  apiKey,
  chatRequest,
  type GrowthService,
  type Line,
  type StateName,
  scriptedModel,
  startService,
  withServices,
} from "./growth-service.js";
import { httpGet, median } from "./http-request.js";

export interface GrowthOptions {
  readonly folder: string;
  readonly state: StateName;
  /** Duration of one turn. */
  readonly seconds: number;
  readonly repeats: number;
  /** Share of the keys, markers and models: 1, or less to check that it works. */
  readonly scale: number;
}

const connections = 32;
/** V8 continues to compile for about three seconds. */
const warmUpSeconds = 4;

interface Side {
  readonly service: GrowthService;
  readonly next: LoadPlan["next"];
  /** Default: 32. */
  readonly connections?: number;
}

interface Turn {
  readonly cpuUs: number;
  readonly perSecond: number;
}

async function takeTurn(side: Side, seconds: number): Promise<Turn> {
  const before = side.service.process.cpuMs();
  const { answers, perSecond } = await sendLoad(side.service.port, { connections, ...side, seconds });
  return { cpuUs: ((side.service.process.cpuMs() - before) * 1_000) / answers, perSecond };
}

/** Loads the sides in turns. Figures are medians of a side's turns; ratios are medians over pairs of neighbouring turns. */
export async function compare(sides: readonly Side[], { seconds, repeats }: GrowthOptions) {
  for (const side of sides) await takeTurn(side, Math.min(warmUpSeconds, 4 * seconds));
  const rows: Turn[][] = [];
  for (let i = 0; i < repeats; i++) {
    const row: Turn[] = [];
    for (const side of sides) row.push(await takeTurn(side, seconds));
    rows.push(row);
  }
  const of = (row: readonly Turn[], side: number): Turn => {
    const turn = row[side];
    if (turn === undefined) throw new Error(`there is no side ${side}`);
    return turn;
  };
  const figure = (name: keyof Turn, side: number): number => median(rows.map((row) => of(row, side)[name]));
  const ratio = (name: keyof Turn, side: number, base: number): number =>
    median(rows.map((row) => of(row, side)[name] / of(row, base)[name]));
  return { figure, ratio };
}

const usAll = (figure: (side: number) => number, sides: number): string =>
  `${Array.from({ length: sides }, (_, side) => Math.round(figure(side))).join(" / ")} us`;

/**
 * Maximum duration of a turn while events only accumulate: beyond 100,000 waiting events of an account, each request also
 * creates deliveries.
 */
const eventSecondsMax = 0.5;

/** Measures requests only: no deliveries are sent. */
export async function endpointCosts(options: GrowthOptions): Promise<Line[]> {
  const { state, folder } = options;
  const webhooks = { deliver: false, allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], endpoints_max: 50 };
  const models = [scriptedModel("chat")];
  const counts = [0, 1, 16, 50];
  const started = counts.map((count) =>
    startService({ name: `endpoints-${count}`, state, folder, settings: { webhooks, models } }),
  );
  return await withServices(started, async (services) => {
    for (const [i, service] of services.entries()) {
      for (let number = 0; number < (counts[i] ?? 0); number++) {
        await service.rpc("unified.webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", {
          webhookEndpoint: {
            account: "default",
            url: `http://127.0.0.1:9999/${number}`,
            events: ["request.completed"],
          },
        });
      }
    }
    const request = chatRequest();
    const sides = services.map((service) => ({ service, next: () => request }));
    const seconds = Math.min(options.seconds, eventSecondsMax);
    const { figure, ratio } = await compare(sides, { ...options, seconds });
    const [one, sixteen] = [ratio("cpuUs", 1, 0), ratio("cpuUs", 2, 1)];
    const shown = usAll((side) => figure("cpuUs", side), counts.length);
    return [
      {
        what: "CPU of a request with 0 / 1 / 16 / 50 webhook endpoints",
        state,
        measured: `${shown}; 1 is ${one.toFixed(2)} times 0, 16 ${sixteen.toFixed(2)} times 1`,
        aim: "1 at most 2.5 times 0, 16 at most 1.5 times 1",
        isHeld: one <= 2.5 && sixteen <= 1.5,
      },
    ];
  });
}

const metrics = ["METRIC_TOKENS", "METRIC_REQUESTS", "METRIC_COST"] as const;

export async function thresholdCosts(options: GrowthOptions): Promise<Line[]> {
  const { state, folder } = options;
  const counts = [0, 1, 16];
  const started = counts.map((count) => startService({ name: `thresholds-${count}`, state, folder }));
  return await withServices(started, async (services) => {
    for (const [i, service] of services.entries()) {
      for (let number = 0; number < (counts[i] ?? 0); number++) {
        await service.rpc("unified.admin.v1.ThresholdService/CreateThreshold", {
          threshold: {
            account: "default",
            metric: metrics[number % metrics.length],
            period: number % 2 === 0 ? "PERIOD_MONTH" : "PERIOD_DAY",
            // Too high to be reached.
            limit: String(10 ** 15 + number),
            percents: [50, 80, 100],
            action: "ACTION_NOTIFY",
          },
        });
      }
    }
    const request = chatRequest();
    const sides = services.map((service) => ({ service, next: () => request }));
    const { figure, ratio } = await compare(sides, options);
    const sixteen = ratio("cpuUs", 2, 1);
    const shown = usAll((side) => figure("cpuUs", side), counts.length);
    return [
      {
        what: "CPU of a request with 0 / 1 / 16 thresholds",
        state,
        measured: `${shown}; 16 is ${sixteen.toFixed(2)} times 1`,
        aim: "16 at most 1.2 times 1",
        isHeld: sixteen <= 1.2,
      },
    ];
  });
}

/** Keys that are created at the same time. */
const creationsAtOnce = 32;

export async function keyCosts(options: GrowthOptions): Promise<Line[]> {
  const { state, folder, scale } = options;
  const [few, many] = [Math.round(5_000 * scale), Math.round(100_000 * scale)];
  return await withServices([startService({ name: "keys", state, folder })], async ([service]) => {
    if (service === undefined) throw new Error("there is no service");
    const requests: Buffer[] = [];
    const create = async (): Promise<void> => {
      while (requests.length < many) {
        const method = "unified.admin.v1.ApiKeyService/CreateApiKey";
        const { secret } = await service.rpc(method, { name: "measured", scope: "SCOPE_READ_WRITE" });
        requests.push(chatRequest({}, String(secret)));
      }
    };
    await Promise.all(Array.from({ length: creationsAtOnce }, create));
    const sideOf = (count: number) => {
      let used = 0;
      return { service, next: () => requests[used++ % count] ?? chatRequest() };
    };
    // V8 compiles first, so that the later growth of memory is caused by the keys.
    await takeTurn(sideOf(few), warmUpSeconds);
    const beforeBytes = service.process.rssBytes();
    const first = sideOf(many);
    let sent = 0;
    while (sent < many) sent += (await sendLoad(service.port, { connections, next: first.next, seconds: 1 })).answers;
    const bytesEach = Math.round((service.process.rssBytes() - beforeBytes) / (many - few));
    const { figure, ratio } = await compare([sideOf(few), sideOf(many)], options);
    const rate = ratio("perSecond", 1, 0);
    const rates = [0, 1].map((side) => Math.round(figure("perSecond", side))).join(" / ");
    return [
      {
        what: `requests a second with ${few.toLocaleString("en")} / ${many.toLocaleString("en")} keys in use`,
        state,
        measured: `${rates}, ${rate.toFixed(2)} times; ${bytesEach} bytes of memory for each key in use`,
        aim: "at least 0.85 times",
        isHeld: rate >= 0.85,
      },
    ];
  });
}

/** Runs growth-markers.ts. */
export function runMarkers(...args: readonly (string | number)[]): string {
  const program = join(import.meta.dirname, "growth-markers.ts");
  return execFileSync(process.execPath, ["--import", "tsx", program, ...args.map(String)], { encoding: "utf8" });
}

const hourMs = 3_600_000;

/** State in memory keeps no markers. */
export async function markerCosts(options: GrowthOptions): Promise<Line[]> {
  const { state, folder, scale } = options;
  const count = Math.round(500_000 * scale);
  const nowMs = Date.now();
  const prepare = (dataDir: string): void =>
    void runMarkers(dataDir, "fill", count, nowMs - 22 * hourMs, nowMs - hourMs);
  const started = [
    startService({ name: "markers-none", state, folder }),
    startService({ name: "markers-many", state, folder, prepare }),
  ];
  return await withServices(started, async (services) => {
    const request = chatRequest();
    const sides = services.map((service) => ({ service, next: () => request }));
    const { figure, ratio } = await compare(sides, options);
    const rate = ratio("perSecond", 1, 0);
    const rates = [0, 1].map((side) => Math.round(figure("perSecond", side))).join(" / ");
    return [
      {
        what: `requests a second with 0 / ${count.toLocaleString("en")} markers of settled requests`,
        state,
        measured: `${rates}, ${rate.toFixed(2)} times`,
        aim: "at least 0.9 times",
        isHeld: rate >= 0.9,
      },
    ];
  });
}

export async function modelCosts(options: GrowthOptions): Promise<Line[]> {
  const { state, folder, scale } = options;
  const count = Math.round(2_000 * scale);
  const models = Array.from({ length: count - 1 }, (_, number) => scriptedModel(`organisation/model-${number}`));
  const settings = { models: [...models, scriptedModel("chat")] };
  const started = [
    startService({ name: "models-one", state, folder }),
    startService({ name: "models-many", state, folder, settings }),
  ];
  return await withServices(started, async (services) => {
    const [one, many] = services;
    if (one === undefined || many === undefined) throw new Error("there is no service");
    const request = chatRequest();
    const list = httpGet("/v1/models", apiKey);
    const sides = [
      ...services.map((service) => ({ service, next: () => request })),
      { service: many, next: () => list, connections: 4 },
    ];
    const { figure, ratio } = await compare(sides, options);
    const chat = ratio("cpuUs", 1, 0);
    const listMs = figure("cpuUs", 2) / 1_000;
    const start = many.startCpuMs / one.startCpuMs;
    const shown = count.toLocaleString("en");
    const chatUs = [0, 1].map((side) => Math.round(figure("cpuUs", side))).join(" / ");
    return [
      {
        what: `CPU of a chat with 1 / ${shown} models`,
        state,
        measured: `${chatUs} us, ${chat.toFixed(2)} times`,
        aim: "at most 1.3 times",
        isHeld: chat <= 1.3,
      },
      {
        what: `CPU of GET /v1/models with ${shown} models`,
        state,
        measured: `${listMs.toFixed(2)} ms`,
        aim: "at most 0.5 ms",
        isHeld: listMs <= 0.5,
      },
      {
        what: `CPU of a start with 1 / ${shown} models`,
        state,
        measured: `${one.startCpuMs} / ${many.startCpuMs} ms, ${start.toFixed(2)} times`,
        aim: "at most 2.5 times",
        isHeld: start <= 2.5,
      },
    ];
  });
}
