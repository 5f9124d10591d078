import type { AttemptEffect, AttemptEnd, WebhookObserver } from "../../domain/webhooks/webhook-sender.js";
import { bounds } from "./bounds.js";
import { Buckets } from "./buckets.js";

/** Counts attempts of deliveries (WH-51). */
export class WebhookMetrics implements WebhookObserver {
  readonly #effects = new Map<AttemptEffect, number>();
  readonly #durations = new Map<AttemptEnd["answer"], Buckets>();
  /** Seconds from the instant at which an attempt was due to its begin. */
  readonly lateness = new Buckets(bounds.webhookLateness);
  #failing = 0;

  attemptEnded({ effect, answer, durationMs, latenessMs }: AttemptEnd): void {
    this.#effects.set(effect, (this.#effects.get(effect) ?? 0) + 1);
    let durations = this.#durations.get(answer);
    if (durations === undefined) {
      durations = new Buckets(bounds.webhookAttempt);
      this.#durations.set(answer, durations);
    }
    durations.observe(durationMs / 1_000);
    this.lateness.observe(latenessMs / 1_000);
  }

  endpointsFailing(count: number): void {
    this.#failing = count;
  }

  /** Attempts by what became of them. */
  get effects(): ReadonlyMap<AttemptEffect, number> {
    return this.#effects;
  }

  /** By what the receiver answered. */
  get durations(): ReadonlyMap<AttemptEnd["answer"], Buckets> {
    return this.#durations;
  }

  /** Endpoints that fail now. */
  get failing(): number {
    return this.#failing;
  }
}
