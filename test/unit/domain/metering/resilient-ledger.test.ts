import { describe, expect, it } from "vitest";
import { CircuitBreaker } from "../../../../src/domain/call/circuit-breaker.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type {
  AdmitRequest,
  Ledger,
  Settlement,
  SettlementSpool,
  SpooledSettlement,
} from "../../../../src/domain/metering/ledger.js";
import { LocalAdmission } from "../../../../src/domain/metering/local-admission.js";
import { ResilientLedger, type WhenAway } from "../../../../src/domain/metering/resilient-ledger.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { admission, settlement as anySettlement, scope } from "../../../support/records.js";
import { silentLog } from "../../../support/silent-log.js";

/** A spool in memory whose content a test can read. */
function memorySpool(sizeMax = 100): SettlementSpool & { readonly kept: Settlement[] } {
  const kept: Settlement[] = [];
  return {
    kept,
    sizeMax,
    get size() {
      return kept.length;
    },
    memoryOnly: 0,
    fault: null,
    oldestAtMs: null,
    async append(settlement) {
      if (kept.length >= sizeMax) throw away();
      kept.push(settlement);
    },
    oldest: async () => kept.map((settlement, i): SpooledSettlement => ({ settlement, end: String(i) })),
    release: async () => {},
    persist: async () => {},
    close: async () => 0,
  };
}

function away(): ServiceError {
  return new ServiceError("storage_unavailable", "The store does not answer.");
}

function request(number: number, requestsPerMinute: number): AdmitRequest {
  return admission(`req_${number}`, { scopes: [scope("key", "key_1", { requestsPerMinute })] });
}

function settlement(number: number, degraded: boolean): Settlement {
  return anySettlement(`req_${number}`, { promptTokens: 3, completionTokens: 4, degraded });
}

const breaker = (clock: FakeClock) =>
  new CircuitBreaker({ clock, log: silentLog, messages: { unavailable: "away", recovered: "back" } });

/** A real ledger in memory behind a connection that a test can cut and restore. */
function setUp(options: { whenAway?: WhenAway; replicas?: number; spoolMax?: number; whenFull?: "uncounted" } = {}) {
  const clock = new FakeClock();
  const state = openMemoryState({ clock });
  const spool = memorySpool(options.spoolMax);
  const unrecorded: string[] = [];
  let isUp = true;
  let asked = 0;
  const link = <T>(answer: () => T): T => {
    asked += 1;
    if (!isUp) throw away();
    return answer();
  };
  const inner: Ledger = {
    chargeRefused: (refused) => state.ledger.chargeRefused(refused),
    answerBegins: () => state.ledger.answerBegins(),
    renew: (progress, leaseMs) => state.ledger.renew(progress, leaseMs),
    resetWindow: (account, owner) => state.ledger.resetWindow(account, owner),
    inspect: (account, scopes) => state.ledger.inspect(account, scopes),
    admit: async (wanted) => link(() => state.ledger.admit(wanted)),
    settle: async (ended) => link(() => state.ledger.settle(ended)),
    sweepLost: async (max, leaseMs) => link(() => state.ledger.sweepLost(max, leaseMs)),
    liveLeases: async () => link(() => state.ledger.liveLeases()),
  };
  const ledger = new ResilientLedger({
    inner,
    breakers: { admissions: breaker(clock), settlements: breaker(clock) },
    spool,
    local: new LocalAdmission(clock, 1_000),
    whenAway: options.whenAway ?? "local",
    whenFull: options.whenFull ?? "refuse",
    replicas: () => options.replicas ?? 1,
    clock,
    onUnrecorded: ({ requestId }) => unrecorded.push(requestId),
  });
  let number = 0;
  /** Sends `count` requests and returns how many are admitted under the limit. */
  const admit = async (count: number, limit: number): Promise<number> => {
    let admitted = 0;
    for (let i = 0; i < count; i++) if ((await ledger.admit(request(number++, limit))).admitted) admitted += 1;
    return admitted;
  };
  return {
    clock,
    ledger,
    spool,
    state,
    unrecorded,
    admit,
    asked: () => asked,
    cut: () => {
      isUp = false;
    },
    mend: () => {
      isUp = true;
      clock.advance(1_000);
    },
  };
}

describe("ResilientLedger", () => {
  it("continues without the store, reports the degraded mode and admits its share of the limit (state RL-16)", async () => {
    const { ledger, admit, cut } = setUp({ replicas: 4 });
    cut();
    expect(await ledger.admit(request(-1, 40))).toMatchObject({ admitted: true, degraded: true });
    expect(await admit(20, 40)).toBe(9);
  });

  it("during an outage each replica admits its share of the remaining limit (state RL-16)", async () => {
    const { admit, cut, clock } = setUp({ replicas: 2 });
    expect(await admit(90, 100)).toBe(90);
    cut();
    expect(await admit(50, 100)).toBe(5);
    clock.advance(66_000);
    expect(await admit(200, 100)).toBe(50);
  });

  it("during an outage the remaining limit of a model is tracked separately for each account (state RL-16)", async () => {
    const { ledger, cut } = setUp({ replicas: 1 });
    const ask = (account: string, number: number) =>
      ledger.admit(
        admission(`req_${account}_${number}`, { account, scopes: [scope("model", "m", { requestsPerMinute: 5 })] }),
      );
    for (let number = 0; number < 5; number += 1) expect(await ask("spent", number)).toMatchObject({ admitted: true });
    await ask("fresh", 0);
    cut();
    expect(await ask("spent", 5)).toMatchObject({ admitted: false, degraded: true });
    expect(await ask("fresh", 1)).toMatchObject({ admitted: true, degraded: true });
  });

  it("a rejection by a share has a Retry-After and the configured limit (state RL-16)", async () => {
    const { ledger, admit, cut } = setUp({ replicas: 2 });
    await admit(10, 10);
    cut();
    const refused = await ledger.admit(request(100, 10));
    expect(refused).toMatchObject({ admitted: false, degraded: true, refusal: { which: "requests", limit: 10 } });
    expect(
      refused.admitted ? null : refused.refusal.which !== "budget" && refused.refusal.retryAfterMs,
    ).toBeGreaterThan(0);
  });

  it("after a recovery, local admissions count until their window is over (state RL-17)", async () => {
    const { admit, cut, mend, clock } = setUp({ replicas: 2 });
    cut();
    expect(await admit(100, 100)).toBe(50);
    mend();
    // The other replica is assumed to have admitted as many.
    expect(await admit(10, 100)).toBe(0);
    clock.advance(66_000);
    expect(await admit(200, 100)).toBe(100);
  });

  it("uses the store again within a second of its recovery and calls it rarely until then (state RL-17)", async () => {
    const { admit, cut, mend, asked, ledger } = setUp();
    cut();
    await admit(100, 1_000);
    expect(asked()).toBeLessThan(10);
    mend();
    expect(await ledger.admit(request(500, 1_000))).toMatchObject({ admitted: true, degraded: false });
  });

  it("a store that is too slow for admissions but not for settlements still gets the settlements (state RL-16)", async () => {
    const { ledger, state, asked, admit } = setUp();
    let tooSlow = 0;
    state.ledger.admit = () => {
      tooSlow += 1;
      throw away();
    };
    for (let number = 0; number < 20; number += 1) {
      await admit(1, 1_000);
      await ledger.settle(settlement(number, true));
    }
    expect(tooSlow).toBe(3);
    expect(asked()).toBe(3 + 20);
  });

  it("during an outage no request waits for a probe of the store (USE-11)", async () => {
    const { ledger, spool, cut, mend, asked } = setUp();
    cut();
    for (let number = 0; number < 10; number += 1) await ledger.settle(settlement(number, false));
    mend();
    await ledger.settle(settlement(10, false));
    expect(asked()).toBe(3);
    expect(spool.kept).toHaveLength(11);
  });

  it("after an outage no request is treated as lost until all processes had time to replay their spools (USE-13)", async () => {
    const { ledger, state, clock, cut, mend } = setUp();
    await state.ledger.admit(request(1, 1_000));
    cut();
    clock.advance(61_000);
    await expect(ledger.sweepLost(10, 60_000)).rejects.toMatchObject({ code: "storage_unavailable" });
    mend();
    expect(await ledger.sweepLost(10, 60_000)).toEqual([]);
    clock.advance(30_000);
    expect(await ledger.sweepLost(10, 60_000)).toMatchObject([{ requestId: "req_1" }]);
  });

  it("a request whose settlement waits in this process's spool is not treated as lost (USE-13)", async () => {
    const { ledger, state, spool, clock, cut, mend } = setUp();
    await state.ledger.admit(request(1, 1_000));
    cut();
    await ledger.settle(settlement(1, false));
    mend();
    clock.advance(61_000);
    expect(await ledger.sweepLost(10, 60_000)).toEqual([]);
    for (const waiting of spool.kept.splice(0)) await state.ledger.settle(waiting);
    expect(await ledger.sweepLost(10, 60_000)).toEqual([]);
  });

  it("during an outage rejects with 503 or admits everything, as configured (state RL-16)", async () => {
    const deny = setUp({ whenAway: "deny" });
    deny.cut();
    await expect(deny.admit(1, 10)).rejects.toMatchObject({ code: "storage_unavailable" });
    const allow = setUp({ whenAway: "allow" });
    allow.cut();
    expect(await allow.admit(30, 10)).toBe(30);
  });

  it("a settlement waits in the spool during an outage, with the time of its end (USE-11)", async () => {
    const { ledger, spool, clock, cut, state } = setUp();
    await ledger.admit(request(1, 10));
    cut();
    expect(await ledger.settle(settlement(1, false))).toEqual({ duplicate: false, crossed: [] });
    expect(spool.kept).toMatchObject([{ requestId: "req_1", endedAtMs: clock.now() }]);
    expect(await state.usage.rows({ account: "a", width: "day", fromMs: 0, toMs: 1e15 })).toEqual([]);
  });

  it("rejects new requests while the spool is full, or lets them run without recording their usage and reports each (USE-12)", async () => {
    const refuse = setUp({ spoolMax: 1 });
    refuse.cut();
    await refuse.ledger.settle(settlement(1, false));
    await expect(refuse.admit(1, 10)).rejects.toMatchObject({ code: "storage_unavailable" });
    const goOn = setUp({ spoolMax: 1, whenFull: "uncounted" });
    goOn.cut();
    await goOn.ledger.settle(settlement(1, false));
    await goOn.ledger.settle(settlement(2, false));
    expect(goOn.unrecorded).toEqual(["req_2"]);
    expect(await goOn.admit(1, 10)).toBe(1);
  });

  it("rejects with the store's error if it is not an outage", async () => {
    const { ledger, state } = setUp();
    const fault = new Error("a defect");
    state.ledger.settle = () => {
      throw fault;
    };
    await expect(ledger.settle(settlement(1, false))).rejects.toBe(fault);
  });
});
