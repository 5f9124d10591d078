import type { Clock } from "../../../../src/domain/call/ports.js";
import { HealthChecks } from "../../../../src/domain/catalog/health-checks.js";
import type { LoadedModel } from "../../../../src/domain/engine/engine.js";
import type { Ejection } from "../../../../src/domain/routing/ejection.js";
import { EjectionGroup } from "../../../../src/domain/routing/ejection-group.js";
import { evenlySpread, type RoutedRequest } from "../../../../src/domain/routing/pick.js";
import { RetryBudget } from "../../../../src/domain/routing/retry-budget.js";
import { type RoutedDeployment, WaitingRoom } from "../../../../src/domain/routing/waiting-room.js";
import { silentLog } from "../../../support/silent-log.js";
import { requestOf, seededRandom } from "./routing-fixture.js";

export interface FleetSize {
  /** Number of servers. Each is one deployment of the same model on every replica. */
  readonly servers: number;
  readonly replicas: number;
  /** Requests of all replicas together, with exponential gaps. */
  readonly perSecond: number;
  /** Mean duration of an answer; each takes 0.5 to 1.5 times as long. */
  readonly answerMs: number;
}

const stepMs = 10;
const refusalMs = 1;
/** So many slots that no request waits: the load of a server then depends on routing alone. */
const slots = 1_000_000;

/** A clock in steps of 10 ms, for tens of thousands of timers. */
class StepClock implements Clock {
  #step = 0;
  readonly #due = new Map<number, (() => void)[]>();

  now(): number {
    return this.#step * stepMs;
  }

  monotonic(): number {
    return this.now();
  }

  after(ms: number, run: () => void): () => void {
    const at = this.#step + Math.max(1, Math.ceil(ms / stepMs));
    let isCancelled = false;
    const timers = this.#due.get(at);
    const timer = (): void => {
      if (!isCancelled) run();
    };
    if (timers === undefined) this.#due.set(at, [timer]);
    else timers.push(timer);
    return () => {
      isCancelled = true;
    };
  }

  step(): void {
    this.#step += 1;
    const timers = this.#due.get(this.#step) ?? [];
    this.#due.delete(this.#step);
    for (const timer of timers) timer();
  }
}

/** An inference server, with the requests of all replicas. */
export interface Server {
  readonly id: string;
  isUp: boolean;
  running: number;
  /** Maximum number of requests that ran at the same time since the figures were reset. */
  peak: number;
  /** Requests received while it was up, since the figures were reset. */
  received: number;
}

interface FleetDeployment extends RoutedDeployment {
  readonly server: Server;
  readonly model: LoadedModel;
}

type Request = RoutedRequest<FleetDeployment>;

interface Replica {
  readonly room: WaitingRoom<FleetDeployment>;
  readonly budget: RetryBudget;
}

/** Since the figures were reset. */
export interface FleetFigures {
  sent: number;
  /** Requests whose client sees a failure. */
  failed: number;
  /** Tries, the first one of each request included. */
  tries: number;
}

/** Replicas of the service that send requests of one model to the same servers. Each has its own routing and health checks. */
export class SimulatedFleet {
  readonly size: FleetSize;
  readonly servers: readonly Server[];
  readonly figures: FleetFigures = { sent: 0, failed: 0, tries: 0 };
  readonly #clock = new StepClock();
  readonly #random = seededRandom(1);
  readonly #replicas: readonly Replica[];
  readonly #perStep: number;
  #arrivals = 0;

  constructor(size: FleetSize) {
    this.size = size;
    const { servers, replicas, perSecond } = size;
    this.#perStep = (perSecond * stepMs) / 1_000;
    this.servers = Array.from({ length: servers }, (_, at) => ({
      id: `s${at}`,
      isUp: true,
      running: 0,
      peak: 0,
      received: 0,
    }));
    this.#replicas = Array.from({ length: replicas }, () => this.#newReplica());
  }

  get nowMs(): number {
    return this.#clock.now();
  }

  /** Resets the figures. */
  reset(): void {
    Object.assign(this.figures, { sent: 0, failed: 0, tries: 0 });
    for (const server of this.servers) Object.assign(server, { peak: server.running, received: 0 });
  }

  async run(seconds: number): Promise<void> {
    for (let step = 0; step < (seconds * 1_000) / stepMs; step++) {
      this.#clock.step();
      for (this.#arrivals += this.#perStep; this.#arrivals > 0; this.#arrivals += Math.log(1 - this.#random())) {
        const replica = this.#replicas[Math.floor(this.#random() * this.#replicas.length)];
        if (replica !== undefined) this.#send(replica);
      }
      // Results of health checks are promises.
      await Promise.resolve();
    }
  }

  #newReplica(): Replica {
    const clock = this.#clock;
    const group = new EjectionGroup(clock);
    const checks = new HealthChecks(clock, silentLog);
    const deployments = this.servers.map((server): FleetDeployment => {
      const ejection: Ejection = group.add(() => {
        if (ejection.isEjected) checks.begin(deployment);
        else checks.end(deployment);
      });
      const model = { isReachable: () => Promise.resolve(server.isUp) } as Partial<LoadedModel> as LoadedModel;
      const load = { outstandingRequests: 0, outstandingTokens: 0 };
      const deployment = { id: server.id, priority: 0, weight: 1, slots, ...load, ejection, server, model };
      return deployment;
    });
    const policy = { random: evenlySpread(this.#random), affinity: null };
    const options = { deployments, waitingMax: 0, limits: { queueWaitMs: 1 }, policy };
    return { room: new WaitingRoom(clock, options), budget: new RetryBudget(clock) };
  }

  #send(replica: Replica): void {
    this.figures.sent += 1;
    replica.budget.requested();
    this.#try(replica, requestOf<FleetDeployment>({ accepts: () => true }), 1);
  }

  #try(replica: Replica, request: Request, count: number): void {
    const slot = replica.room.tryAcquire(request);
    if (slot === null) throw new Error("a simulated deployment has no free slot");
    const { deployment } = slot;
    const { server } = deployment;
    this.figures.tries += 1;
    if (!server.isUp) {
      this.#clock.after(refusalMs, () => {
        slot.failed("connection refused");
        slot.release();
        const next = { ...request, tried: [...(request.tried ?? []), deployment] };
        if (replica.room.hasChoice(next) && replica.budget.take(count)) this.#try(replica, next, count + 1);
        else this.figures.failed += 1;
      });
      return;
    }
    server.received += 1;
    server.running += 1;
    server.peak = Math.max(server.peak, server.running);
    const sinceMs = this.nowMs;
    // For routing, the first content arrives after half of the time of the answer.
    const tookMs = this.size.answerMs * (0.5 + this.#random());
    this.#clock.after(tookMs / 2, () => slot.succeeded(this.nowMs - sinceMs));
    this.#clock.after(tookMs, () => {
      server.running -= 1;
      slot.release();
    });
  }
}
