import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DispatcherDeps } from "../../../../src/domain/webhooks/dispatcher.js";
import { FailingEndpoints } from "../../../../src/domain/webhooks/endpoint-book.js";
import {
  type EndpointHealth,
  type EndpointRecord,
  freshHealth,
} from "../../../../src/domain/webhooks/endpoint-store.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { endpoint } from "../../../support/records.js";
import { answered, Dispatching, day, keptLog } from "./dispatch-fixture.js";

const place = { account: "a", endpointId: "we_a" };

/** The endpoint `we_a` and its watchers, controlled by the test. */
function oneEndpoint(disableAfterMs = 5 * day) {
  const clock = new FakeClock();
  const kept: { record: EndpointRecord; health: EndpointHealth } = { record: endpoint("we_a"), health: freshHealth };
  let beforeReplace = async (): Promise<void> => {};
  const watch = () => {
    const log = keptLog();
    const counts: number[] = [];
    const failing = new FailingEndpoints({
      endpoints: {
        find: async () => ({ ...kept }),
        async replace(record) {
          await beforeReplace();
          if (record.version !== kept.record.version + 1) return "changed";
          kept.record = record;
          return "replaced";
        },
      },
      clock,
      now: () => clock.now(),
      log,
      observer: { endpointsFailing: (count) => void counts.push(count) },
      disableAfterMs,
    });
    return { failing, log, counts };
  };
  return {
    clock,
    kept,
    watch,
    onReplace: (run: () => Promise<void>) => {
      beforeReplace = run;
    },
  };
}

function health(changes: Partial<EndpointHealth>): EndpointHealth {
  return { ...freshHealth, ...changes };
}

/** Health of an endpoint that fails for long enough to be disabled. */
function hopeless(clock: FakeClock): EndpointHealth {
  return health({ failingSinceMs: clock.now() - 5 * day, failuresInRow: 120, permanentlyFailed: 20 });
}

describe("FailingEndpoints", () => {
  it("reports an endpoint as failing once, at the tenth consecutive failure, and reports its recovery (WH-38)", async () => {
    const { watch, clock } = oneEndpoint();
    const { failing, log, counts } = watch();
    for (let failuresInRow = 1; failuresInRow <= 30; failuresInRow++) {
      await failing.note(place, health({ failuresInRow, failingSinceMs: clock.now() }));
      expect(log.lines).toHaveLength(failuresInRow < 10 ? 0 : 1);
    }
    expect(log.lines).toMatchObject([{ level: "warn", fields: { endpoint: "we_a", account: "a", failures: 10 } }]);
    expect(counts).toEqual([1]);
    await failing.note(place, health({ lastSuccessAtMs: clock.now() }));
    await failing.note(place, health({ lastSuccessAtMs: clock.now() }));
    expect(log.lines.slice(1)).toMatchObject([{ level: "info", fields: { endpoint: "we_a" } }]);
    expect(counts).toEqual([1, 0]);
  });

  it("disables an endpoint after five days without a success and 20 permanent failures (WH-38)", async () => {
    const { watch, clock, kept } = oneEndpoint();
    const { failing, log, counts } = watch();
    const almost = [{ permanentlyFailed: 19 }, { failingSinceMs: clock.now() - 5 * day + 1 }, { failingSinceMs: null }];
    for (const changes of almost) {
      kept.health = { ...hopeless(clock), ...changes };
      await failing.note(place, kept.health);
      expect(kept.record.status).toBe("enabled");
    }
    kept.health = hopeless(clock);
    await failing.note(place, kept.health);
    expect(kept.record).toMatchObject({
      status: "disabled",
      disabledReason: "failing",
      version: 2,
      updatedAtMs: clock.now(),
    });
    expect(log.lines.map(({ level }) => level)).toEqual(["warn", "error"]);
    expect(counts.at(-1)).toBe(0);
  });

  it("never disables an endpoint if the setting is 0 (WH-38)", async () => {
    const { watch, clock, kept } = oneEndpoint(0);
    kept.health = hopeless(clock);
    await watch().failing.note(place, kept.health);
    expect(kept.record.status).toBe("enabled");
  });

  it("an endpoint that two processes want to disable at the same time is disabled once (WH-38)", async () => {
    const { watch, clock, kept } = oneEndpoint();
    kept.health = hopeless(clock);
    const watches = [watch(), watch()];
    await Promise.all(watches.map(({ failing }) => failing.note(place, kept.health)));
    expect(kept.record).toMatchObject({ status: "disabled", version: 2 });
    expect(watches.flatMap(({ log }) => log.lines).filter(({ level }) => level === "error")).toHaveLength(1);
  });

  it("tries to disable an endpoint again after a concurrent change, and does not disable a recovered one (WH-38)", async () => {
    const { watch, clock, kept, onReplace } = oneEndpoint();
    kept.health = hopeless(clock);
    let changes = 0;
    onReplace(async () => {
      if (changes++ === 0) kept.record = { ...kept.record, description: "moved", version: kept.record.version + 1 };
    });
    const { failing } = watch();
    await failing.note(place, kept.health);
    expect(kept.record).toMatchObject({ status: "disabled", description: "moved", version: 3 });

    kept.record = { ...endpoint("we_a"), version: 4 };
    const before = hopeless(clock);
    kept.health = health({ lastSuccessAtMs: clock.now() });
    await failing.note(place, before);
    expect(kept.record.status).toBe("enabled");
  });

  it("does not disable an endpoint while the store is unavailable, but does so at the next failure after it", async () => {
    const { watch, clock, kept, onReplace } = oneEndpoint();
    kept.health = hopeless(clock);
    onReplace(() => Promise.reject(new Error("away")));
    const { failing, log } = watch();
    await failing.note(place, kept.health);
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { endpoint: "we_a" } });
    onReplace(async () => {});
    await failing.note(place, kept.health);
    expect(kept.record.status).toBe("disabled");
  });
});

describe("FailingEndpoints with a dispatcher", () => {
  let dispatching: Dispatching;
  beforeEach(() => {
    dispatching = new Dispatching();
  });
  afterEach(() => dispatching.close());

  it("an endpoint without a success for five days is disabled, and nothing more is sent to it (WH-38)", async () => {
    const { receivers, state } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => answered(500);
    dispatching.start({ settings: { retryDelaysMs: [] } });
    await dispatching.emitMany("we_a", 25);
    await dispatching.pass(100, 5);
    expect(dispatching.failing).toBe(1);
    await dispatching.pass(5 * day - 200);
    await dispatching.emit("we_a");
    await dispatching.soon();
    expect((await state.endpoints.find("a", "we_a"))?.record.status).toBe("enabled");
    await dispatching.pass(200);
    await dispatching.emit("we_a");
    await dispatching.soon();
    const kept = await state.endpoints.find("a", "we_a");
    expect(kept?.record).toMatchObject({ status: "disabled", disabledReason: "failing" });
    expect(dispatching.failing).toBe(0);
    const sent = receivers.got.length;
    await dispatching.emit("we_a");
    await dispatching.pass(10_000, 500);
    expect(receivers.got).toHaveLength(sent);
  });

  it("sporadic failures never disable an endpoint, because each success restarts the five days (WH-38)", async () => {
    const { receivers, state } = dispatching;
    await dispatching.insert("we_a");
    dispatching.start({ settings: { retryDelaysMs: [] } });
    for (let hour = 0; hour < 24 * 12; hour += 2) {
      receivers.answer = () => answered(hour % 96 === 94 ? 200 : 500);
      await dispatching.emit("we_a");
      await dispatching.pass(day / 12);
    }
    const kept = await state.endpoints.find("a", "we_a");
    expect(kept?.record.status).toBe("enabled");
    expect(receivers.got).toHaveLength(24 * 6);
  });

  it("a recovery that only another process has seen is detected within a minute (WH-38)", async () => {
    const { receivers, state } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => answered(500);
    let claimsHere = true;
    const nothingDue = { claims: [], nextInMs: null };
    const queue: DispatcherDeps["queue"] = {
      claim: async (options) => (claimsHere ? state.deliveries.claim(options) : nothingDue),
      fanOut: (max) => state.deliveries.fanOut(max),
      finish: (request) => state.deliveries.finish(request),
      handBack: (claims) => state.deliveries.handBack(claims),
      onDue: (listener) => state.deliveries.onDue(listener),
    };
    dispatching.start({ queue, settings: { retryDelaysMs: [] } });
    await dispatching.emitMany("we_a", 10);
    await dispatching.pass(100, 5);
    expect(dispatching.failing).toBe(1);
    expect(receivers.got).toHaveLength(10);

    claimsHere = false;
    await dispatching.emit("we_a");
    const { claims } = await state.deliveries.claim({ max: 1, leaseMs: 15_000 });
    for (const claim of claims) {
      const result = { ...answered(200), startedAtMs: state.now() };
      await state.deliveries.finish({ claim, result, outcome: { state: "delivered" } });
    }
    expect(claims).toHaveLength(1);
    await dispatching.now();
    expect(dispatching.failing).toBe(1);
    await dispatching.pass(60_000, 30_000);
    expect(dispatching.failing).toBe(0);
    expect(receivers.got).toHaveLength(10);
    expect(dispatching.log.lines.filter(({ fields }) => fields["endpoint"] === "we_a").at(-1)?.level).toBe("info");
  });
});
