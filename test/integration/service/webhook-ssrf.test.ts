import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { EndpointRecord } from "../../../src/domain/webhooks/endpoint-store.js";
import { uis } from "../../support/cli-run.js";
import { startDnsServer, type Zone } from "../../support/receivers/dns-server.js";
import { hostileUrls, hostileZone } from "../../support/receivers/hostile-urls.js";
import { startReceiver } from "../../support/receivers/receiver.js";
import { noConnections, privateAddresses, startTraps } from "../../support/receivers/traps.js";
import { type RunningService, type StartOptions, startService } from "../../support/start-service.js";
import { rounds } from "../../support/tier.js";
import { deliveryService, endpointService, type ShownAttempt, WebhookCalls } from "./webhook-calls.js";

/** An address from a range that is no longer assigned but counts as public: nothing answers there. */
const nobody = "3ffe::1";
/** A part of loopback that simulates the public network: it is allowed, 127.0.0.1 is not. */
const openRange = "127.77.0.0/16";
const openAddress = "127.77.0.1";

const anyAddress = /\d+\.\d+\.\d+\.\d+|::|\bfd00/;
const blocked = { error: "blocked_address" };

const opened: { close(): Promise<void> | void }[] = [];
afterEach(async () => {
  for (const part of opened.splice(0).reverse()) await part.close();
});

/** Registers a part that is closed after the test, in reverse order. */
function closing<T extends { close(): Promise<void> | void }>(part: T): T {
  opened.push(part);
  return part;
}

async function start(
  webhooks: object,
  options: Omit<StartOptions, "config"> & { readonly config?: object } = {},
): Promise<{ service: RunningService; calls: WebhookCalls }> {
  const service = closing(await startService({ ...options, config: { webhooks, ...options.config } }));
  return { service, calls: new WebhookCalls(service) };
}

/** The result of an attempt for comparison. */
function outcome({ number, status, error, ip, response }: ShownAttempt): object {
  return { number, status, error, ip, response };
}

describe("webhooks to private addresses", () => {
  it("every hostile URL is rejected at registration and at a change, and the error reveals nothing about the target (SEC-14, WH-39, WH-42)", async () => {
    const traps = closing(await startTraps());
    const dns = closing(await startDnsServer(hostileZone));
    const { service, calls } = await start({ dns_servers: [dns.server] });
    const id = await calls.add("https://hooks.example.com:8443/hook");
    const urls = hostileUrls(traps.port);
    expect(urls.length).toBeGreaterThanOrEqual(200);

    for (const { url, why } of urls) {
      const made = await calls.post(url);
      expect([url, why, made.status, made.json["error"]]).toEqual([
        url,
        why,
        400,
        expect.objectContaining({ code: "invalid_value", param: "url", message: expect.stringMatching(/^[A-Z].*\.$/) }),
      ]);
      const changed = await calls.own.rpc(`${endpointService}/UpdateWebhookEndpoint`, { id, url });
      expect([url, changed.status, changed.code]).toEqual([url, 400, "invalid_argument"]);
      for (const { text } of [made, changed]) expect([url, text]).toEqual([url, expect.not.stringMatching(anyAddress)]);
    }
    const env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
    const inside = ["webhooks", "add", "--url", `https://six.nip.test:${traps.port}/`, "--events", "request.completed"];
    expect(await uis(inside, { env })).toMatchObject({ code: 1, stderr: expect.not.stringMatching(anyAddress) });
    const kept = await calls.own.get("/v1/webhooks");
    expect(kept.json["data"]).toMatchObject([{ id, url: "https://hooks.example.com:8443/hook" }]);
    expect(traps.connections()).toEqual(noConnections(traps));
  });

  it("an endpoint registered under other settings or written into the store gets no connection, and no log shows its target (SEC-14, WH-39, WH-41, WH-42)", async (context) => {
    const traps = closing(await startTraps());
    const dns = closing(await startDnsServer(hostileZone));
    const folder = mkdtempSync(join(tmpdir(), "uis-ssrf-"));
    closing({ close: () => rmSync(folder, { recursive: true, force: true }) });
    const config = { data_dir: join(folder, "data"), state: { durability: "every-write" } };
    const env = { UIS_BOOTSTRAP_API_KEY: "sk-of-both-starts-4711" };
    const common = { dns_servers: [dns.server], endpoints_max: 1_000 };

    const openWide = { allow_http: true, allow_private_cidrs: ["0.0.0.0/0", "::/0"], allow_ports: [22, 25, 80, 445] };
    const before = await startService({
      config: { ...config, webhooks: { ...common, ...openWide, deliver: false } },
      env,
    });
    // The database file cannot store the part of a text after a zero byte, so such URLs are left out.
    const urls = hostileUrls(traps.port).flatMap(({ url }) => (url.includes("\0") ? [] : url));
    const registered = await fillWithEndpoints(before, urls);
    await context.annotate(`${registered} of ${urls.length} endpoints were registered while more was open`);
    expect(registered).toBeGreaterThan(80);
    await new WebhookCalls({ ...before, key: env.UIS_BOOTSTRAP_API_KEY }).chat();
    await before.close();

    const { service } = await start({ ...common, retry_delays: ["1h"] }, { config, env, logLevel: "debug" });
    const calls = new WebhookCalls({ ...service, key: env.UIS_BOOTSTRAP_API_KEY });
    await calls.chat();
    // One event was waiting for this start, and one was created after it.
    const deliveries = await calls.until(2 * urls.length, ["awaiting_retry"]);
    const urlsById = await urlsOfEndpoints(calls);
    for (const { endpointId, attempts } of deliveries) {
      const ends = attempts?.map(outcome);
      expect([urlsById.get(endpointId), ends]).toEqual([urlsById.get(endpointId), [{ number: 1, ...blocked }]]);
    }
    expect(traps.connections()).toEqual(noConnections(traps));

    const ends = service.logs.filter(({ msg }) => msg === "delivery attempt failed");
    expect(ends).toHaveLength(deliveries.length);
    const shown = await everythingShown(service, deliveries[0]?.id ?? "");
    for (const text of [...shown, JSON.stringify(ends)]) {
      expect(text).toContain("blocked_address");
      expect(text).not.toMatch(anyAddress);
    }

    // The result of a test event reveals nothing about the target either.
    for (const id of urlsById.keys()) {
      const { text, json } = await calls.administrator.rpc(`${endpointService}/SendTestEvent`, { id });
      expect(json).toEqual({
        ...blocked,
        payload: expect.any(String),
        ...("latencyMs" in json ? { latencyMs: expect.any(String) } : {}),
      });
      expect(text).not.toMatch(anyAddress);
    }
    expect(traps.connections()).toEqual(noConnections(traps));
  });

  it("names that resolve to other addresses after registration, or to public and private ones, get no connection (SEC-15, WH-40)", async () => {
    const traps = closing(await startTraps());
    const receiver = closing(
      await startReceiver({
        host: openAddress,
        port: traps.port,
        // Each attempt resolves the name and connects again.
        answer: { status: 500, headers: { connection: "close" }, body: "failed" },
      }),
    );
    const dns = closing(await startDnsServer(movingZone));
    const retry_delays = new Array<string>(20).fill("10ms");
    const webhooks = { allow_http: true, allow_private_cidrs: [openRange], dns_servers: [dns.server], retry_delays };
    const { calls } = await start(webhooks);
    const names = new Map<string, string>();
    for (const name of Object.keys(movingZone)) names.set(await calls.add(`http://${name}:${traps.port}/`), name);

    const events = rounds(30);
    for (let event = 0; event < events; event += 1) await calls.chat();
    const deliveries = await calls.until(events * names.size, ["permanently_failed"]);
    const arrived = { status: 500, ip: openAddress };
    for (const { endpointId, attempts = [] } of deliveries) {
      expect(attempts).toHaveLength(20);
      const allowed = names.get(endpointId) === "flips.test" ? [blocked, arrived] : [blocked];
      for (const { number: _, ...ended } of attempts.map(outcome) as ShownAttempt[])
        expect(allowed).toContainEqual(ended);
    }
    // The requests that arrived show that the name was resolved again for each attempt.
    expect(new Set(receiver.requests.map(({ headers }) => headers.host))).toEqual(
      new Set([`flips.test:${traps.port}`]),
    );
    expect(traps.connections()).toEqual(noConnections(traps));
  });

  it("a redirect to this machine is not followed (WH-22, SEC-16)", async () => {
    const traps = closing(await startTraps());
    const statuses = [301, 302, 303, 307, 308];
    const receiver = closing(
      await startReceiver({
        host: openAddress,
        answer({ path }) {
          const [, status, host = ""] = path.split("/");
          const location = `http://${decodeURIComponent(host)}:${traps.port}/admin`;
          return { status: Number(status), headers: { location }, body: "moved" };
        },
      }),
    );
    const webhooks = { allow_http: true, allow_private_cidrs: [openRange], retry_delays: ["1h"], endpoints_max: 100 };
    const { calls } = await start(webhooks);
    const expected = new Map<string, number>();
    for (const status of statuses) {
      for (const host of [...traps.hosts, "localhost"]) {
        expected.set(await calls.add(`${receiver.url}${status}/${encodeURIComponent(host)}`), status);
      }
    }
    await calls.chat();
    const deliveries = await calls.until(expected.size, ["awaiting_retry"]);
    for (const { endpointId, attempts } of deliveries) {
      expect(attempts?.map(outcome)).toEqual([{ number: 1, status: expected.get(endpointId), ip: openAddress }]);
    }
    expect(receiver.requests).toHaveLength(expected.size);
    expect(traps.connections()).toEqual(noConnections(traps));
  });

  it("allow_private_cidrs allows only its ranges, and never link-local addresses (WH-41)", async () => {
    const traps = closing(await startTraps());
    const receiver = closing(await startReceiver({ host: openAddress, port: traps.port }));
    const dns = closing(await startDnsServer({ "lab.test": [openAddress], "beside.test": ["127.78.0.1"] }));
    const allow_private_cidrs = [openRange, "169.254.0.0/16", "fe80::/10"];
    const { calls } = await start({ allow_http: true, allow_private_cidrs, dns_servers: [dns.server] });
    const { port } = receiver;
    for (const host of [openAddress, "[::ffff:127.77.0.1]", "lab.test"]) await calls.add(`http://${host}:${port}/`);
    const beside = ["127.76.255.255", "127.78.0.1", "[::ffff:127.78.0.1]", "[::127.77.0.1]", "beside.test"];
    const never = ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"];
    for (const host of [...traps.hosts, ...beside, ...never]) {
      const refused = await calls.post(`http://${host}:${port}/`);
      expect([host, refused.status, refused.code]).toEqual([host, 400, "invalid_value"]);
    }
    await calls.chat();
    for (const { attempts } of await calls.until(3, ["delivered"])) expect(attempts).toMatchObject([{ status: 200 }]);
    expect(receiver.requests).toHaveLength(3);
    expect(traps.connections()).toEqual(noConnections(traps));
  });
});

/** The first DNS answer for each of these names, which the registration gets, is a public address. */
const movingZone: Zone = {
  "public-first.test": (before) => [before === 0 ? nobody : "127.0.0.1"],
  "open-first.test": (before) => [before === 0 ? openAddress : "127.0.0.1"],
  "mapped-later.test": (before) => [before === 0 ? openAddress : "::ffff:127.0.0.1"],
  "mixed-four.test": (before) => (before === 0 ? [openAddress] : [openAddress, "127.0.0.1"]),
  "mixed-six.test": (before) => (before === 0 ? [openAddress] : [openAddress, "::1"]),
  "metadata-later.test": (before) => [before === 0 ? openAddress : "169.254.169.254"],
  "this-machine-later.test": (before) => (before === 0 ? [openAddress] : ["0.0.0.0", ...privateAddresses]),
  "flips.test": (before) => [before % 2 === 0 ? openAddress : "127.0.0.1"],
};

/** Registers accepted URLs, and writes the others directly into the store. Returns the number registered. */
async function fillWithEndpoints(service: RunningService, urls: readonly string[]): Promise<number> {
  const calls = new WebhookCalls(service);
  const { state, secrets } = service.service.parts;
  let registered = 0;
  for (const [index, url] of urls.entries()) {
    if ((await calls.post(url)).status === 200) {
      registered += 1;
      continue;
    }
    const id = `we_${String(index).padStart(24, "0")}`;
    const sealed = secrets.seal("whsec_7XVwqFv8um23PqGh4WzC1pH7EYns1ohK/p6zy+/JNYg=", id);
    const nowMs = state.now();
    const endpoint: EndpointRecord = {
      id,
      account: "default",
      url,
      description: "",
      events: ["request.completed"],
      status: "enabled",
      disabledReason: null,
      maxInFlight: 8,
      secrets: [{ sealed, hint: "JNYg", expiresAtMs: null }],
      version: 1,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    };
    expect(await state.endpoints.insert(endpoint, 1_000)).toBe(true);
  }
  return registered;
}

/** URLs of the caller's endpoints by id. */
async function urlsOfEndpoints({ own }: WebhookCalls): Promise<ReadonlyMap<string, string>> {
  const { json } = await own.get("/v1/webhooks");
  return new Map((json["data"] as { id: string; url: string }[]).map(({ id, url }) => [id, url]));
}

/** All texts in which an administrator can see attempts, including the response with the single delivery `id`. */
async function everythingShown(service: RunningService, id: string): Promise<readonly string[]> {
  const { administrator } = new WebhookCalls(service);
  const env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
  const shown = async (...args: string[]) => (await uis(["webhooks", ...args], { env })).stdout;
  return [
    (await administrator.rpc(`${deliveryService}/ListDeliveries`, { pageSize: 1_000 })).text,
    (await administrator.rpc(`${deliveryService}/GetDelivery`, { id })).text,
    await shown("deliveries", "--json", "--limit", "1000"),
    await shown("deliveries"),
    await shown("inspect", id, "--json"),
    await shown("inspect", id),
  ];
}
