import { rememberLast } from "../../lib/remember-last.js";
import type { LoadedModel } from "../engine/engine.js";

const secondsOf = rememberLast((seconds: number) => BigInt(seconds));
const fingerprintOf = rememberLast((ofModel: string) => `fp_${ofModel}`);

/** What all pieces of one answer share. */
export class AnswerIdentity {
  /** `chatcmpl-` or `cmpl-` and 24 random characters (RESP-15). */
  readonly id: string;
  /** Unix seconds (RESP-2). */
  readonly created: bigint;
  /** The id that the client sent (RESP-10). */
  readonly model: string;
  #fingerprint = "fp_";

  constructor(id: string, nowMs: number, model: string) {
    this.id = id;
    this.created = secondsOf(Math.floor(nowMs / 1000));
    this.model = model;
  }

  /** Which engine's model answers; told before its first event. */
  answeredBy(model: LoadedModel): void {
    this.#fingerprint = fingerprintOf(model.fingerprint);
  }

  /** `fp_` and the engine's fingerprint (RESP-11). */
  get fingerprint(): string {
    return this.#fingerprint;
  }
}
