import { describe, expect, it } from "vitest";
import type { Progress } from "../../../../src/domain/call/live-requests.js";
import { Accounting } from "../../../../src/domain/metering/accounting.js";
import { LeaseKeeper } from "../../../../src/domain/metering/lease-keeper.js";
import type { Ledger } from "../../../../src/domain/metering/ledger.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { listAll } from "../../../suites/delivery-records.js";
import { eventually } from "../../../support/eventually.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { endpoint } from "../../../support/records.js";
import { silentLog } from "../../../support/silent-log.js";

const request = (id: string) =>
  ({
    requestId: id,
    account: "a",
    keyId: "key_1",
    model: "m",
    operation: "create_chat_completion",
    reserve: { tokens: 0, costNano: 0 },
    promptTokens: 7,
    leaseMs: 60_000,
    scopes: [],
    budgets: [],
  }) as const;

function setUp(progress: () => readonly Progress[]) {
  const clock = new FakeClock();
  const state = openMemoryState({ clock });
  const sums = { thresholdsOf: () => [], budgetsOf: () => [] };
  const accounting = new Accounting({ thresholds: sums, endpoints: state.endpoints, now: () => state.now() });
  const prices = [{ fromMs: 0, input: 10, cachedInput: 10, output: 20 }];
  const catalog = { pricesOf: () => ({ prices }) };
  const ledger: Ledger = state.ledger;
  const keeper = new LeaseKeeper({ ledger, live: { progress }, accounting, catalog, clock, log: silentLog });
  const used = async () => (await state.usage.rows({ account: "a", width: "day", fromMs: 0, toMs: 1e15 }))[0];
  return { clock, state, keeper, used };
}

/** Advances the time in steps, because a timer's work can set the next timer. */
async function pass(clock: FakeClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 5_000) {
    clock.advance(5_000);
    await new Promise(setImmediate);
  }
}

describe("LeaseKeeper", () => {
  it("a running request keeps its lease however long it runs (state RL-18)", async () => {
    const { clock, state, keeper } = setUp(() => [
      { requestId: "req_1", account: "a", promptTokens: 7, completionTokens: 1 },
    ]);
    await state.ledger.admit(request("req_1"));
    for (let minute = 0; minute < 10; minute++) {
      await pass(clock, 60_000);
      expect(await state.ledger.liveLeases()).toBe(1);
    }
    keeper.close();
  });

  it("a request of a dead process is settled within 65 s with its last known usage (USE-13)", async () => {
    let progress: readonly Progress[] = [{ requestId: "req_1", account: "a", promptTokens: 7, completionTokens: 5 }];
    const { clock, state, keeper, used } = setUp(() => progress);
    await state.ledger.admit(request("req_1"));
    await pass(clock, 20_000);
    progress = [];
    await pass(clock, 65_000);
    await eventually(async () => (await used()) !== undefined, "the settlement of a lost request");
    expect(await used()).toMatchObject({
      requests: 1n,
      promptTokens: 7n,
      completionTokens: 5n,
      costNano: 7n * 10n + 5n * 20n,
    });
    expect(await state.ledger.liveLeases()).toBe(0);
    keeper.close();
  });

  it("a request that runs in this process is not lost, even if the store's time has passed the end of its lease (USE-13)", async () => {
    let progress: readonly Progress[] = [];
    const { clock, state, keeper, used } = setUp(() => progress);
    await state.ledger.admit(request("req_1"));
    clock.advance(3_600_000);
    progress = [{ requestId: "req_1", account: "a", promptTokens: 7, completionTokens: 5 }];
    await keeper.sweep();
    expect(await used()).toBeUndefined();
    expect(await state.ledger.liveLeases()).toBe(1);
    progress = [];
    clock.advance(60_000);
    await keeper.sweep();
    await eventually(async () => (await used())?.requests === 1n, "the settlement of a lost request");
    keeper.close();
  });

  it("a lost request is reported as failed once, with replica_lost (USE-13)", async () => {
    const { clock, state, keeper } = setUp(() => []);
    await state.endpoints.insert(endpoint("we_1", { events: ["request.failed"] }), 1);
    await state.ledger.admit(request("req_1"));
    await pass(clock, 65_000);
    await eventually(async () => (await listAll(state.deliveries)).length === 1, "the event of a lost request");
    const [delivery] = await listAll(state.deliveries);
    expect(JSON.parse((await state.deliveries.payload(delivery?.id ?? "")) ?? "{}")).toMatchObject({
      type: "request.failed",
      data: { request_id: "req_1", status: "failed", error: { code: "replica_lost" } },
    });
    await keeper.sweep();
    expect(await listAll(state.deliveries)).toHaveLength(1);
    keeper.close();
  });

  it("leaves no timer when it is closed", () => {
    const { clock, keeper } = setUp(() => []);
    keeper.close();
    expect(clock.pending).toBe(0);
  });
});
