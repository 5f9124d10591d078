import { beforeAll, describe, expect, it } from "vitest";
import { type FleetSize, type Server, SimulatedFleet } from "./simulated-fleet.js";

/** Figures of one phase of a simulation. */
interface Phase {
  readonly name: string;
  readonly seconds: number;
  /** Share of all requests that failed. */
  readonly failedShare: number;
  /** Mean number of tries of a request. */
  readonly tries: number;
  /**
   * Maximum number of requests that ran at the same time on one working server, divided by the mean number per server before
   * the outage. `peakOthers` is the same for the failing servers.
   */
  readonly peakWorking: number;
  readonly peakOthers: number;
  /** Requests that the failing servers received, divided by the number that they receive without a failure. */
  readonly traffic: number;
}

const partSeconds = 5;
const outageSeconds = 30;
const returnSeconds = 50;
/** Maximum time in which a busy machine computes one simulation. The largest takes 6 s on a quiet one. */
const simulatedWithinMs = 120_000;

async function phase(fleet: SimulatedFleet, name: string, seconds: number, others: readonly Server[]): Promise<Phase> {
  fleet.reset();
  await fleet.run(seconds);
  const { sent, failed, tries } = fleet.figures;
  const { perSecond, answerMs, servers } = fleet.size;
  const mean = (perSecond * answerMs) / 1_000 / servers;
  const peakOf = (group: readonly Server[]): number =>
    group.reduce((peak, server) => Math.max(peak, server.peak), 0) / mean;
  const received = others.reduce((sum, server) => sum + server.received, 0);
  return {
    name,
    seconds,
    failedShare: failed / sent,
    tries: tries / sent,
    peakWorking: peakOf(fleet.servers.filter((server) => !others.includes(server))),
    peakOthers: peakOf(others),
    traffic: others.length === 0 ? 0 : (received * servers) / (seconds * perSecond * others.length),
  };
}

/** Simulates that a number of servers is unreachable for 30 s and then works again. */
async function outage(size: FleetSize, failing: number) {
  const fleet = new SimulatedFleet(size);
  const others = fleet.servers.slice(0, failing);
  const phases = [await phase(fleet, "before", 15, others)];
  const parts = async (name: string, seconds: number, partSeconds: number): Promise<readonly Phase[]> => {
    const added: Phase[] = [];
    for (let at = 0; at < seconds; at += partSeconds) {
      added.push(await phase(fleet, `${name} ${at} s`, partSeconds, others));
    }
    phases.push(...added);
    return added;
  };
  for (const server of others) server.isUp = false;
  const out = await parts("outage", outageSeconds, partSeconds);
  for (const server of others) server.isUp = true;
  const back = await parts("return", returnSeconds, partSeconds);
  return { before: phases[0] as Phase, out, back, phases };
}

/** Seconds from the end of the outage until the servers get this share of their usual traffic again. */
function secondsUntil(back: readonly Phase[], share: number): number {
  const at = back.findIndex(({ traffic }) => traffic >= share);
  return at < 0 ? Number.POSITIVE_INFINITY : (at + 1) * partSeconds;
}

function print(title: string, phases: readonly Phase[]): void {
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const rows = phases.map(({ name, failedShare, tries, peakWorking, peakOthers, traffic }) =>
    [
      name,
      percent(failedShare),
      tries.toFixed(3),
      peakWorking.toFixed(2),
      peakOthers.toFixed(2),
      percent(traffic),
    ].join(" | "),
  );
  const head = ["phase | failed requests | tries | peak of working | peak of failing | traffic of failing"];
  process.stdout.write(`${[title, ...head, ...rows].join("\n")}\n\n`);
}

const mean = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;

/**
 * Simulates replicas that route independently of each other to the same servers. `peakMax` depends on the load: the more
 * requests a server has, the less the number varies.
 */
export function describeFleet(
  size: FleetSize,
  { peakMax, prints }: { readonly peakMax: number; readonly prints: boolean },
): void {
  const failing = Math.floor(size.servers / 3);
  const title = `${size.replicas} replicas, ${size.servers} deployments, ${size.perSecond} requests a second`;

  describe(`${title}: a third fails for ${outageSeconds} s and recovers`, () => {
    let result: Awaited<ReturnType<typeof outage>>;
    beforeAll(async () => {
      result = await outage(size, failing);
      if (prints) print(title, result.phases);
    }, simulatedWithinMs);

    it("at most 1 % of the requests fail, and 1 in 1,000 from 15 s on (REL-9)", () => {
      expect(mean(result.out.map(({ failedShare }) => failedShare))).toBeLessThan(0.01);
      for (const { failedShare } of result.out.slice(3)) expect(failedShare).toBeLessThan(0.001);
      for (const { failedShare } of [result.before, ...result.back]) expect(failedShare).toBe(0);
    });

    it("there are at most 1.25 tries for each request, and 1.15 after 10 s (REL-8)", () => {
      expect(mean(result.out.map(({ tries }) => tries))).toBeLessThan(1.25);
      for (const { tries } of result.out.slice(2)) expect(tries).toBeLessThan(1.15);
    });

    it("the working servers share the load evenly, and no recovered server gets more than the same bound (REL-9)", () => {
      for (const { peakWorking } of result.phases) expect(peakWorking).toBeLessThan(peakMax);
      for (const { peakOthers } of result.back) expect(peakOthers).toBeLessThan(peakMax);
      expect(result.back[0]?.traffic).toBeLessThan(0.6);
    });

    it("recovered servers get half of their traffic after 15 s and 80 % after 30 s (REL-9)", () => {
      expect(secondsUntil(result.back, 0.5)).toBeLessThanOrEqual(15);
      expect(secondsUntil(result.back, 0.8)).toBeLessThanOrEqual(30);
    });
  });

  describe(`${title}: one fails for ${outageSeconds} s and recovers`, () => {
    it("no request fails, and the load of the recovered server stays within the bound for all servers (REL-9)", async () => {
      const { phases, out, back } = await outage(size, 1);
      if (prints) print(title, phases);
      for (const { failedShare } of phases) expect(failedShare).toBe(0);
      for (const { tries } of out) expect(tries).toBeLessThan(1.02);
      for (const { peakOthers } of back) expect(peakOthers).toBeLessThan(peakMax);
    });
  });

  describe(`${size.replicas} replicas, 3 deployments: one recovers`, () => {
    it("replicas that probe the recovered server at the same time do not send it more than its share (REL-9)", async () => {
      const few = { ...size, servers: 3, perSecond: 2 * size.replicas };
      const { phases, back } = await outage(few, 1);
      if (prints) print(`${few.replicas} replicas, 3 deployments, ${few.perSecond} requests a second`, phases);
      for (const { failedShare } of phases) expect(failedShare).toBe(0);
      expect(back[0]?.traffic).toBeLessThan(1);
      for (const { peakOthers } of back) expect(peakOthers).toBeLessThan(peakMax);
    });
  });

  describe(`${size.replicas} replicas, 100 deployments: all fail`, () => {
    it("servers get at most 1.25 tries for each request plus 10 a second from each replica (REL-8)", async () => {
      const fleet = new SimulatedFleet({ ...size, servers: 100 });
      for (const server of fleet.servers) server.isUp = false;
      const { tries } = await phase(fleet, "all fail", 15, fleet.servers);
      expect(tries).toBeLessThan(1.2 + (10 * size.replicas) / size.perSecond + 0.05);
      expect(tries).toBeGreaterThan(1.2);
    });
  });
}
