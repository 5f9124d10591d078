import { setTimeout as delay } from "node:timers/promises";
import type { Answer, ChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import type { ServiceProcess } from "../../support/service-process.js";

/** The kill happens at a random moment within this time after the answers of a round. */
const killWithinMs = 200;
/** Timeout for any wait of a round. */
const patienceMs = 600_000;

export interface KillRounds {
  readonly rounds: number;
  /** Answers before each kill, and after the last. */
  readonly answersPerRound: number;
  /** Returns a number below `count`, which determines the moment of a kill. */
  readonly pick: (count: number) => number;
  /** Called between the end of a process and the start of the next one. */
  readonly whileDead?: () => Promise<void>;
}

/** A service under load that is killed and started again on the same state. */
export class Victim {
  /** Null while it is dead. */
  service: ServiceProcess | null = null;
  readonly #start: () => Promise<ServiceProcess>;

  constructor(start: () => Promise<ServiceProcess>) {
    this.#start = start;
  }

  async start(): Promise<ServiceProcess> {
    this.service = await this.#start();
    return this.service;
  }

  async dieOften({ answers }: ChatClients, { rounds, answersPerRound, pick, whileDead }: KillRounds): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      await answered(answers, answersPerRound);
      await delay(pick(killWithinMs));
      await this.service?.kill();
      this.service = null;
      await whileDead?.();
      await this.start();
    }
    // The requests of the dead process are settled before these answers.
    await answered(answers, answersPerRound);
  }
}

/** Resolves after the given number of further answers. */
export async function answered(answers: readonly Answer[], count: number): Promise<void> {
  const before = answers.length;
  await eventually(() => answers.length >= before + count, `${count} more answers`, patienceMs);
}

/** Ids of requests with a complete answer, and of requests whose answer was cut off. */
export function seenBy(answers: readonly Answer[]): { readonly whole: string[]; readonly broken: string[] } {
  const idsOf = (outcome: Answer["outcome"]) =>
    answers.flatMap(({ requestId, outcome: how }) => (how === outcome && requestId !== null ? requestId : []));
  return { whole: idsOf("completed"), broken: idsOf("broken") };
}

/** Requests that a sweep has settled, according to the services' logs. */
export function lostInLogs(services: readonly ServiceProcess[]): string[] {
  return services
    .flatMap((service) => service.logs())
    .filter(({ msg }) => msg === "settled a request of a dead process")
    .map((line) => String(line["request_id"]));
}
