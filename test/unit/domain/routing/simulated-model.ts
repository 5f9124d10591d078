import type { EjectionState } from "../../../../src/domain/routing/ejection.js";
import { EjectionGroup } from "../../../../src/domain/routing/ejection-group.js";
import type { RoutedRequest } from "../../../../src/domain/routing/pick.js";
import { RetryBudget } from "../../../../src/domain/routing/retry-budget.js";
import { type RoutedDeployment, WaitingRoom } from "../../../../src/domain/routing/waiting-room.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { policyWith, requestOf, seededRandom } from "./routing-fixture.js";

export type Behaviour = "works" | "slow" | "killed" | "hung" | "500" | "429";

const answerMs = 100;
const firstByteMaxMs = 5_000;
const checkEveryMs = 3_000;
const stepMs = 10;

class RateLimited extends Error {}

/** An upstream that answers after about 100 ms, or fails as `behaviour` specifies. */
export class SimulatedUpstream implements RoutedDeployment {
  readonly weight = 1;
  outstandingRequests = 0;
  outstandingTokens = 0;
  behaviour: Behaviour = "works";
  /** Number of requests received, and number of requests answered. */
  received = 0;
  answered = 0;
  readonly states: EjectionState["state"][] = [];
  readonly ejection;
  readonly id: string;
  readonly priority: number;
  readonly slots: number;
  readonly #clock: FakeClock;
  readonly #random: () => number;
  readonly #running = new Set<(error: Error) => void>();

  constructor(
    { id, priority, slots }: Pick<RoutedDeployment, "id" | "priority" | "slots">,
    clock: FakeClock,
    group: EjectionGroup,
    random: () => number,
  ) {
    this.id = id;
    this.priority = priority;
    this.slots = slots;
    this.#clock = clock;
    this.#random = random;
    this.ejection = group.add(({ state }) => this.states.push(state));
  }

  /** Answers to health checks. */
  get isReachable(): boolean {
    return this.behaviour !== "killed" && this.behaviour !== "hung";
  }

  /** Fails all running and all future requests. */
  kill(): void {
    this.behaviour = "killed";
    for (const fail of this.#running) fail(new Error("connection reset"));
  }

  /** Resolves with the time to the first content. */
  answer(): Promise<number> {
    this.received += 1;
    const sinceMs = this.#clock.now();
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        cancel();
        this.#running.delete(fail);
        settle();
      };
      const fail = (error: Error): void => end(() => reject(error));
      const [afterMs, error] = this.#outcome();
      const cancel = this.#clock.after(afterMs, () => {
        if (error !== null) return fail(error);
        this.answered += 1;
        end(() => resolve(this.#clock.now() - sinceMs));
      });
      this.#running.add(fail);
    });
  }

  #outcome(): [afterMs: number, error: Error | null] {
    const ms = answerMs * (0.5 + this.#random());
    if (this.behaviour === "works") return [ms, null];
    if (this.behaviour === "slow") return [10 * ms, null];
    if (this.behaviour === "hung") return [firstByteMaxMs, new Error("no first byte")];
    if (this.behaviour === "429") return [5, new RateLimited("rate limited")];
    return [1, new Error(this.behaviour === "500" ? "status 500" : "connection refused")];
  }
}

/** A model with its upstreams, called in the same way as by an inference request. */
export class SimulatedModel {
  readonly clock = new FakeClock();
  readonly group = new EjectionGroup(this.clock);
  readonly budget = new RetryBudget(this.clock);
  readonly upstreams: readonly SimulatedUpstream[];
  readonly room: WaitingRoom<SimulatedUpstream>;
  sent = 0;
  failed = 0;
  #arrivals = 0;
  #checkedAtMs = 0;

  /** One upstream for each priority. */
  constructor({ priorities = [0, 0, 0], affinity = false, slots = 64 }) {
    const random = seededRandom(1);
    this.upstreams = priorities.map(
      (priority, at) => new SimulatedUpstream({ id: `u${at}`, priority, slots }, this.clock, this.group, random),
    );
    this.room = new WaitingRoom(this.clock, {
      deployments: this.upstreams,
      waitingMax: 512,
      limits: { queueWaitMs: 30_000 },
      policy: policyWith({ affinity, clock: this.clock }),
    });
  }

  get received(): number {
    return this.upstreams.reduce((sum, { received }) => sum + received, 0);
  }

  upstream(at: number): SimulatedUpstream {
    const upstream = this.upstreams[at];
    if (upstream === undefined) throw new Error(`there is no upstream ${at}`);
    return upstream;
  }

  /** Sends one request, with its tries. Resolves with the upstream that answered, or null when the client sees a failure. */
  async send(affinityKey: number | null = null): Promise<SimulatedUpstream | null> {
    const tried: SimulatedUpstream[] = [];
    let request: RoutedRequest<SimulatedUpstream> = requestOf({ affinityKey });
    this.sent += 1;
    this.budget.requested();
    for (let tries = 1; ; tries++) {
      const slot = this.room.tryAcquire(request) ?? (await this.room.acquire(request, new AbortController().signal));
      try {
        slot.succeeded(await slot.deployment.answer());
        return slot.deployment;
      } catch (error) {
        if (error instanceof RateLimited) slot.deployment.ejection.cool(1_000, error.message);
        else slot.failed(error instanceof Error ? error.message : "unknown");
        tried.push(slot.deployment);
        request = { ...request, tried };
        if (!this.room.hasChoice(request) || !this.budget.take(tries)) {
          this.failed += 1;
          return null;
        }
      } finally {
        slot.release();
      }
    }
  }

  /** Lets requests arrive at a fixed rate. Health checks of ejected upstreams run every 3 s. */
  async run(seconds: number, perSecond: number): Promise<void> {
    for (let ms = 0; ms < seconds * 1_000; ms += stepMs) {
      this.#arrivals += (perSecond * stepMs) / 1_000;
      for (; this.#arrivals >= 1; this.#arrivals -= 1) void this.send(this.#newKey());
      await this.step();
    }
  }

  /** Keys of requests without a common beginning. */
  #newKey(): number {
    return Math.imul(this.sent, 0x9e3779b1) >>> 0;
  }

  async step(): Promise<void> {
    this.clock.advance(stepMs);
    await new Promise(setImmediate);
    if (this.clock.now() - this.#checkedAtMs < checkEveryMs) return;
    this.#checkedAtMs = this.clock.now();
    for (const { ejection, isReachable } of this.upstreams) ejection.checked(isReachable);
  }
}
