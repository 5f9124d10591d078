import { beforeEach, describe, expect, it } from "vitest";
import { endpoint } from "../support/records.js";
import { DeliveryDesk, leaseMs, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Tests of the order in which due deliveries are claimed, and of the number that is claimed per endpoint. */
export function describeDeliveryFairness(open: OpenState): void {
  describe("fairness", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(() => {
      desk = new DeliveryDesk(harness);
    });

    it("first attempts to an endpoint are claimed in order of creation (WH-31)", async () => {
      await desk.insert(endpoint("we_a"));
      const ids: string[] = [];
      for (let number = 0; number < 12; number++) ids.push(await desk.emit("we_a"));
      const claimed: string[] = [];
      while (claimed.length < ids.length) {
        const claims = await desk.claim(3);
        claimed.push(...claims.map(({ deliveryId }) => deliveryId));
        for (const claim of claims) await desk.finish(claim, succeeded);
      }
      expect(claimed).toEqual(ids);
    });

    it("over all workers, at most the endpoint's maximum of attempts is in flight (WH-37)", async () => {
      await desk.insert(endpoint("we_a", { maxInFlight: 2 }));
      await desk.emitMany(5, "we_a");
      const claims = (await Promise.all([desk.claim(64), desk.claim(64), desk.claim(64)])).flat();
      expect(claims).toHaveLength(2);
      const full = await desk.queue.claim({ max: 64, leaseMs });
      expect(full.claims).toEqual([]);
      expect(full.nextInMs).toBeGreaterThan(0);
      expect(full.nextInMs).toBeLessThan(leaseMs + harness.leewayMs);
      const [first, second] = claims;
      if (first === undefined || second === undefined) throw new Error("two were claimed");
      await desk.finish(first, succeeded);
      expect(await desk.claim()).toHaveLength(1);
      await desk.finish(second, retryIn(30_000));
      expect(await desk.claim()).toHaveLength(1);
      expect(await desk.claim()).toEqual([]);
    });

    it("the capacity that a lost worker held is free again when its leases expire (WH-37)", async () => {
      await desk.insert(endpoint("we_a", { maxInFlight: 2 }));
      const ids = await desk.emitMany(4, "we_a");
      await desk.claim();
      await harness.advance(leaseMs);
      expect((await desk.claim()).map(({ deliveryId }) => deliveryId)).toEqual(ids.slice(0, 2));
      expect(await desk.claim()).toEqual([]);
    });

    it("a raised maximum applies from the next claim (WH-37)", async () => {
      await desk.insert(endpoint("we_a", { maxInFlight: 1 }));
      await desk.emitMany(5, "we_a");
      expect(await desk.claim()).toHaveLength(1);
      await desk.change("we_a", { maxInFlight: 3 });
      expect(await desk.claim()).toHaveLength(2);
      await desk.change("we_a", { maxInFlight: 1 });
      expect(await desk.claim()).toEqual([]);
    });

    it("a claim returns at most the requested number, over all accounts (WH-37)", async () => {
      const accounts = ["a", "b", "c", "d"];
      for (const account of accounts) await desk.insert(endpoint(`we_${account}`, { account }));
      for (const account of accounts) await desk.emitMany(4, `we_${account}`, account);
      expect(await desk.claim(5)).toHaveLength(5);
      const claimed = [5];
      while (claimed.reduce((sum, count) => sum + count) < 16) {
        const { length } = await desk.claim(5);
        expect(length).toBeGreaterThan(0);
        expect(length).toBeLessThanOrEqual(5);
        claimed.push(length);
      }
      expect(await desk.claim(5)).toEqual([]);
    });

    it("a hanging endpoint with 300 deliveries does not delay 300 deliveries to another one (WH-37)", async () => {
      await desk.insert(endpoint("we_hangs"));
      await desk.insert(endpoint("we_good"));
      await desk.emitMany(300, "we_hangs");
      let left = 300;
      let hanging = 0;
      let asked = 0;
      while (left > 0) {
        asked += 1;
        const claims = await desk.claim(64);
        const good = claims.filter(({ endpointId }) => endpointId === "we_good");
        expect(good).toHaveLength(Math.min(8, left));
        hanging += claims.length - good.length;
        await Promise.all(good.map((claim) => desk.finish(claim, succeeded)));
        left -= good.length;
      }
      expect(hanging).toBe(8);
      expect(asked).toBe(Math.ceil(300 / 8));
    });

    it("every endpoint is served even if each claim returns fewer deliveries than one endpoint has due (WH-37)", async () => {
      const ids = Array.from({ length: 6 }, (_, number) => `we_${number}`);
      for (const id of ids) await desk.insert(endpoint(id));
      for (let number = 0; number < 20; number++) await desk.emit("we_0");
      const turns: string[] = [];
      for (let asked = 0; asked < 12; asked++) {
        const claims = await desk.claim(2);
        expect(claims).toHaveLength(2);
        turns.push(...new Set(claims.map(({ endpointId }) => endpointId)));
        for (const claim of claims) await desk.finish(claim, succeeded);
      }
      for (const id of ids) expect(turns.filter((turn) => turn === id).length).toBeGreaterThanOrEqual(2);
    });

    it("deliveries of every account are claimed (WH-37)", async () => {
      const accounts = Array.from({ length: 6 }, (_, number) => `account_${number}`);
      for (const account of accounts) await desk.insert(endpoint(`we_of_${account}`, { account }));
      for (const account of accounts) await desk.emitMany(20, `we_of_${account}`, account);
      const turns = new Set<string>();
      for (let asked = 0; asked < 12; asked++) {
        const claims = await desk.claim(2);
        for (const claim of claims) {
          turns.add(claim.account);
          await desk.finish(claim, succeeded);
        }
      }
      expect([...turns].toSorted()).toEqual(accounts);
    });
  });
}
