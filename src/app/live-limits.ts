import type { ServiceLimits } from "../contract/limits.js";
import { liveLimitNames } from "./config/limits-settings.js";

/** The limits of a running service. */
export interface LiveLimits {
  /** Everybody holds this one object, and reads a field when it is needed: there it changes when limits are swapped. */
  readonly now: ServiceLimits;
  /** Takes over what can change while the service runs, all at once; the rest stays as it was at the start. */
  swap(next: ServiceLimits): void;
}

export function createLiveLimits(atStart: ServiceLimits): LiveLimits {
  const now: { -readonly [Name in keyof ServiceLimits]: number } = { ...atStart };
  return {
    now,
    swap(next) {
      for (const name of liveLimitNames) now[name] = next[name];
    },
  };
}
