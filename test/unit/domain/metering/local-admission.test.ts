import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LimitScope } from "../../../../src/domain/call/rate-limits.js";
import type { Admission, AdmitRequest, LimitRefusal } from "../../../../src/domain/metering/ledger.js";
import { LocalAdmission } from "../../../../src/domain/metering/local-admission.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { admission, leaseMs, scope } from "../../../support/records.js";

function start(leasesMax = 1_000_000) {
  const clock = new FakeClock();
  const local = new LocalAdmission(clock, leasesMax);
  let count = 0;
  const admit = (scopes: readonly LimitScope[], tokens = 0, changes: Partial<AdmitRequest> = {}): Admission => {
    count += 1;
    const request = admission(`req_${count}`, { scopes, reserve: { tokens, costNano: 0 }, ...changes });
    return local.admit(request, () => 0n);
  };
  return { clock, local, admit, lastId: () => `req_${count}` };
}

describe("LocalAdmission", () => {
  it("no minute admits more requests than the limit, or holds more tokens than were reserved or used (state RL-3, state RL-6)", () => {
    const steps = fc.array(
      fc.record({
        afterMs: fc.integer({ min: 0, max: 8_000 }),
        tokens: fc.integer({ min: 0, max: 40 }),
        /** Percentage of the reserved tokens that the request uses. */
        usedPercent: fc.integer({ min: 0, max: 100 }),
        endsAfter: fc.integer({ min: 0, max: 5 }),
      }),
      { maxLength: 150 },
    );
    fc.assert(
      fc.property(steps, (input) => {
        const { clock, local, admit, lastId } = start();
        const limit = scope("account", "a", { requestsPerMinute: 8, tokensPerMinute: 100 });
        const charged: { readonly atMs: number; tokens: number }[] = [];
        const ends: (() => void)[][] = [];
        input.forEach(({ afterMs, tokens, usedPercent, endsAfter }, step) => {
          clock.advance(afterMs);
          for (const end of ends[step] ?? []) end();
          if (!admit([limit], tokens).admitted) return;
          const id = lastId();
          const charge = { atMs: clock.now(), tokens };
          charged.push(charge);
          const last = charged.filter(({ atMs }) => atMs > clock.now() - 60_000);
          expect(last.length).toBeLessThanOrEqual(8);
          expect(last.reduce((sum, each) => sum + each.tokens, 0)).toBeLessThanOrEqual(100);
          ends[step + endsAfter + 1] = [
            ...(ends[step + endsAfter + 1] ?? []),
            () => {
              charge.tokens = Math.floor((tokens * usedPercent) / 100);
              local.end(id, { tokens: charge.tokens, costNano: 0 });
            },
          ];
        });
      }),
    );
  });

  it("after the reported wait a request is admitted, and a millisecond earlier it is not (state RL-10)", () => {
    const earlier = fc.array(
      fc.record({ afterMs: fc.integer({ min: 0, max: 30_000 }), tokens: fc.integer({ min: 1, max: 60 }) }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(earlier, fc.integer({ min: 1, max: 100 }), (charges, tokens) => {
        const { clock, admit } = start();
        const scopes = [
          scope("key", "k", { requestsPerMinute: 5, tokensPerMinute: 150 }),
          scope("account", "a", { requestsPerMinute: 7, tokensPerMinute: 100 }),
        ];
        for (const charge of charges) {
          clock.advance(charge.afterMs);
          admit(scopes, charge.tokens);
        }
        const answer = admit(scopes, tokens);
        if (answer.admitted) return;
        const waitMs = limitRefusal(answer).retryAfterMs ?? Number.NaN;
        clock.advance(waitMs - 1);
        expect(admit(scopes, tokens).admitted).toBe(false);
        clock.advance(1);
        expect(admit(scopes, tokens).admitted).toBe(true);
      }),
    );
  });

  it("a rejected request changes no window and no lease (state RL-2)", () => {
    const limits = fc.record({
      requestsPerMinute: fc.option(fc.integer({ min: 1, max: 6 })),
      tokensPerMinute: fc.option(fc.integer({ min: 1, max: 60 })),
      concurrency: fc.option(fc.integer({ min: 1, max: 6 })),
    });
    fc.assert(
      fc.property(
        limits,
        limits,
        fc.array(fc.integer({ min: 0, max: 20 }), { maxLength: 12 }),
        (key, account, sizes) => {
          const { local, admit } = start();
          const scopes = [scope("key", "k", key), scope("account", "a", account)];
          for (const tokens of sizes) {
            const before = [local.live, local.inspect("a", scopes)];
            if (!admit(scopes, tokens).admitted) expect([local.live, local.inspect("a", scopes)]).toEqual(before);
          }
        },
      ),
    );
  });

  it("removes the rate limit windows of 100,000 idle keys (state RL-21)", () => {
    const { clock, local, admit, lastId } = start();
    for (let owner = 0; owner < 100_000; owner++) {
      admit([scope("key", `key_${owner}`, { requestsPerMinute: 10, tokensPerMinute: 100, concurrency: 3 })], 7);
      local.end(lastId(), { tokens: 7, costNano: 0 });
    }
    expect(local.owners).toBe(100_000);
    clock.advance(70_000);
    for (let sweep = 0; sweep < 3; sweep++) local.sweep(100, leaseMs);
    expect(local.owners).toBe(0);
  });

  it("keeps the windows of owners with recent charges or running requests (state RL-21)", () => {
    const { clock, local, admit } = start();
    const busy = scope("key", "busy", { requestsPerMinute: 3 });
    const running = scope("key", "running", { concurrency: 1 });
    admit([running]);
    for (let i = 0; i < 3; i++) {
      clock.advance(50_000);
      admit([busy]);
      local.sweep(100, leaseMs * 10);
    }
    expect(local.inspect("a", [busy, running])).toMatchObject([{ requests: 2 }, { running: 1 }]);
    expect(admit([running]).admitted).toBe(false);
  });

  it("a refund into a reset window does not reduce new charges", () => {
    const { local, admit, lastId } = start();
    const limit = scope("account", "a", { tokensPerMinute: 100 });
    admit([limit], 90);
    const id = lastId();
    local.resetWindow("a", limit.owner);
    admit([limit], 50);
    local.end(id, { tokens: 10, costNano: 0 });
    expect(local.inspect("a", [limit])).toMatchObject([{ tokens: 50 }]);
  });

  it("the rejection of a request larger than a limit has no wait, even if another limit is exceeded, too", () => {
    const { admit } = start();
    const scopes = [scope("key", "k", { requestsPerMinute: 1 }), scope("account", "a", { tokensPerMinute: 10 })];
    admit(scopes, 10);
    expect(limitRefusal(admit(scopes, 11))).toMatchObject({ which: "tokens", retryAfterMs: null });
  });

  it("a step of the wall clock changes no rate limit window and ends no lease", () => {
    const wall = new FakeClock();
    const steady = new FakeClock(1_000);
    const clock = { now: () => wall.now(), monotonic: () => steady.now() };
    const local = new LocalAdmission(clock, 10);
    const scopes = [scope("account", "a", { requestsPerMinute: 1 })];
    local.admit(admission("req_1", { scopes }), () => 0n);
    wall.advance(3_600_000);
    expect(local.admit(admission("req_2", { scopes }), () => 0n).admitted).toBe(false);
    expect(local.sweep(10, leaseMs)).toEqual([]);
    steady.advance(leaseMs);
    const [lost] = local.sweep(10, leaseMs);
    expect(lost?.admittedAtMs).toBe(wall.now() - leaseMs);
  });

  it("rejects requests beyond the maximum number of leases", () => {
    const { local, admit, lastId } = start(2);
    admit([]);
    admit([]);
    expect(() => admit([])).toThrow(expect.objectContaining({ code: "server_is_overloaded", retryAfterMs: 1_000 }));
    expect(local.live).toBe(2);
    local.end("req_1", null);
    admit([]);
    expect(local.end(lastId(), null)).toMatchObject({ request: { requestId: lastId() } });
    expect(local.end("req_unknown", null)).toBeNull();
  });
});

function limitRefusal(answer: Admission): LimitRefusal {
  if (answer.admitted || answer.refusal.which === "budget") throw new Error("no limit refused the request");
  return answer.refusal;
}
