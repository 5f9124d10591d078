import { ServiceError } from "../../../domain/call/service-error.js";
import type { ScriptAnswer } from "./script-runner.js";

const hourMs = 3_600_000;
const attemptsMax = 3;

export function hourOf(atMs: number): number {
  return Math.floor(atMs / hourMs);
}

export function startOfHour(hour: number): number {
  return hour * hourMs;
}

/**
 * Calls a script whose keys have periods in their names. Which period it is, only the server knows, so the script
 * compares hours before it does anything and answers with the time alone when they differ; then it is called again for
 * the hour that the server named. That ends, because an hour is longer than any call.
 */
export async function atStoreHour(
  estimatedNowMs: number,
  call: (hour: number, nowMs: number) => Promise<ScriptAnswer>,
): Promise<ScriptAnswer> {
  let nowMs = estimatedNowMs;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const answer = await call(hourOf(nowMs), nowMs);
    if (answer.rest.length > 0) return answer;
    nowMs = answer.nowMs;
  }
  throw new ServiceError("storage_unavailable", "The clock of the Redis server is not steady.", {
    retryAfterMs: 1000,
  });
}
