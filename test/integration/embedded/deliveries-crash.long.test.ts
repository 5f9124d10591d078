import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { State } from "../../../src/domain/service/state.js";
import { deliveryId } from "../../../src/domain/webhooks/delivery.js";
import type { Claim } from "../../../src/domain/webhooks/delivery-queue.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { attemptResult, event, succeeded } from "../../suites/delivery-records.js";
import { FakeClock } from "../../support/fake-clock.js";
import { silentLog } from "../../support/silent-log.js";
import type { FromDeliveryChild } from "./delivery-child.js";

/** Length of a lease. It is longer than the inspection of the state of a killed child takes. */
const leaseMs = 120_000;

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-delivery-crash-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

/** Content of the messages that a worker had sent before it was killed. */
interface Left {
  readonly made: readonly string[];
  readonly claims: readonly Claim[];
  readonly finished: ReadonlySet<string>;
}

/** Lets a child create and send deliveries, and kills it after the given number of messages. */
async function workAndKill(from: number, wordsMin: number): Promise<Left> {
  const file = fileURLToPath(new URL("./delivery-child.ts", import.meta.url));
  const args = [dataDir, String(from), String(leaseMs)];
  const child = fork(file, args, { execArgv: ["--import", "tsx"], stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const said: FromDeliveryChild[] = [];
  await heard(child, said, wordsMin);
  const closed = once(child, "close");
  child.kill("SIGKILL");
  await closed;
  const made = said.flatMap((word) => (word.kind === "made" ? word.numbers : []));
  return {
    made: made.map((number) => deliveryId(event(number).id, "we_1")),
    claims: said.flatMap((word) => (word.kind === "claimed" ? word.claims : [])),
    finished: new Set(said.flatMap((word) => (word.kind === "finished" ? word.ids : []))),
  };
}

function heard(child: ChildProcess, said: FromDeliveryChild[], wordsMin: number): Promise<void> {
  return new Promise((resolve, reject) => {
    child.on("message", (word: FromDeliveryChild) => {
      said.push(word);
      if (said.length >= wordsMin) resolve();
    });
    child.once("disconnect", () => reject(new Error("the child ended by itself")));
  });
}

async function claimAll({ deliveries }: State): Promise<Claim[]> {
  const claims: Claim[] = [];
  for (;;) {
    const claimed = await deliveries.claim({ max: 64, leaseMs });
    if (claimed.claims.length === 0) return claims;
    claims.push(...claimed.claims);
    for (const claim of claimed.claims) await deliveries.finish({ claim, result: attemptResult(), outcome: succeeded });
  }
}

const idsOf = (claims: readonly Claim[]): Set<string> => new Set(claims.map(({ deliveryId: id }) => id));

describe("deliveries of the embedded state under kill -9", () => {
  it("no delivery is lost, only attempts in flight are repeated after their lease, and former holders are rejected (WH-32, WH-33)", {
    timeout: 240_000,
  }, async () => {
    let repeated = 0;
    for (let round = 0; round < 20; round++) {
      const left = await workAndKill(round * 1_000_000, 9 + Math.floor(Math.random() * 40));
      const unfinished = left.claims.filter(({ deliveryId: id }) => !left.finished.has(id));
      const clock = new FakeClock(Date.now());
      const state = await openEmbeddedState({ dataDir, log: silentLog, clock });
      const stateOf = async (id: string) => (await state.deliveries.find(id))?.state;

      // No delivery that the killed worker held can be claimed before its lease ends.
      const first = await claimAll(state);
      expect([...idsOf(first)].filter((id) => idsOf(left.claims).has(id))).toEqual([]);
      for (const id of left.finished) expect(await stateOf(id)).toBe("delivered");

      clock.advance(leaseMs);
      const second = await claimAll(state);
      repeated += second.length;
      const inFlight = new Map(unfinished.map((claim) => [claim.deliveryId, claim]));
      for (const claim of second) {
        const former = inFlight.get(claim.deliveryId);
        if (former === undefined) continue;
        expect(claim).toEqual({ ...former, fence: claim.fence, isSlow: claim.isSlow });
        expect(claim.fence).toBeGreaterThan(former.fence);
      }
      for (const claim of unfinished) {
        expect(await state.deliveries.finish({ claim, result: attemptResult(), outcome: succeeded })).toBeNull();
      }
      for (const id of left.made) {
        expect(await state.deliveries.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
      }
      expect(await state.deliveries.backlog()).toEqual([]);
      await state.close();
    }
    expect(repeated).toBeGreaterThan(0);
  });
});
