import type { State } from "../../src/domain/service/state.js";
import { admission, leaseMs, scope, settlement, threshold } from "./records.js";

const atOnce = 64;
const accounts = 200;
const keysPerAccount = 10;
const models = 4;
/** One in so many requests is rejected by validation, settled twice, or never settled because its process dies. */
const every = { refused: 11, repeated: 23, lost: 47 };
const sessionMs = 3_600_000;
const sweepMax = 1_000;

/** Admits and settles `count` requests, numbered from `from`. Returns how many are still running. */
export async function soakLedger(state: State, from: number, count: number): Promise<number> {
  for (let done = 0; done < count; done += atOnce) {
    const wave = Array.from({ length: Math.min(atOnce, count - done) }, (_, i) => oneRequest(state, from + done + i));
    await Promise.all(wave);
  }
  return state.ledger.liveLeases();
}

/** Settles the requests still running, once their leases have expired by the store's time; returns their number. */
export async function settleLost({ ledger }: State): Promise<number> {
  let settled = 0;
  for (;;) {
    const lost = await ledger.sweepLost(sweepMax, leaseMs);
    if (lost.length === 0) return settled;
    await Promise.all(
      lost.map((each) => ledger.settle(settlement(each.requestId, { ...each, error: "replica_lost" }))),
    );
    settled += lost.length;
  }
}

async function oneRequest(state: State, number: number): Promise<void> {
  const { ledger } = state;
  const requestId = `req_${number}`;
  const account = `account-${number % accounts}`;
  const keyId = `key_${number % (accounts * keysPerAccount)}`;
  const model = `model-${number % models}`;
  const who = { account, keyId, model };
  const limits = { requestsPerMinute: 1_000_000, tokensPerMinute: 100_000_000, concurrency: 1_000 };
  const scopes = [scope("key", keyId, limits), scope("account", account, limits), scope("model", model, limits)];
  const whole = { kind: "account" as const, id: account };
  const budget = {
    id: `thr_${account}`,
    metric: "tokens",
    period: "day",
    limit: 1_000_000_000n,
    scope: whole,
  } as const;
  if (number % every.refused === 0) {
    await ledger.chargeRefused({ requestId: `${requestId}_refused`, account, keyId, scopes });
    await noteAct(state, number);
  }
  const reserve = { tokens: 100, costNano: 100 };
  await ledger.admit(admission(requestId, { ...who, scopes, budgets: [budget], reserve, promptTokens: 10 }));
  if (number % every.lost === 1) return;
  const end = settlement(requestId, { ...who, costNano: 7, thresholds: [threshold(`thr_${account}`, { account })] });
  await ledger.settle(end);
  if (number % every.repeated === 0) await ledger.settle(end);
}

async function noteAct({ audit, sessions, now }: State, number: number): Promise<void> {
  const atMs = now();
  const actor = { kind: "system", id: "" } as const;
  const act = { actor, address: "127.0.0.1", action: "test", target: "", result: "ok", details: {} } as const;
  await audit.append({ id: `aud_${number}`, atMs, ...act });
  if (number % (every.refused * 10) !== 0) return;
  await sessions.insert({
    id: `ses_${number}`,
    tokenHash: `hash_${number}`,
    user: "admin",
    role: "admin",
    createdAtMs: atMs,
    lastSeenAtMs: atMs,
    expiresAtMs: atMs + sessionMs,
    address: "127.0.0.1",
    userAgent: "",
  });
}
