import { readFileSync } from "node:fs";
import type { WebhookRefusal } from "../../../src/lib/webhook-signature.js";

/** A delivery that a receiver must accept or refuse. */
export interface Vector {
  readonly name: string;
  readonly secret: string;
  /** Value of Service-Signature. */
  readonly header: string;
  readonly body: string;
  /** Unix time in seconds. */
  readonly now: number;
  readonly valid: boolean;
  readonly reason?: WebhookRefusal;
}

export const { vectors } = JSON.parse(readFileSync("docs/webhooks/vectors.json", "utf8")) as {
  readonly vectors: readonly Vector[];
};

/** Input of the programs around the snippets: a line `secret,header,body,now` for each vector, the first three in hex. */
export const vectorLines = vectors
  .map(({ secret, header, body, now }) => [...[secret, header, body].map(hex), now].join(","))
  .join("\n")
  .concat("\n");

/** Expected output of these programs. */
export const expectedLines = vectors.map(({ valid }) => `${valid}\n`).join("");

function hex(text: string): string {
  return Buffer.from(text, "utf8").toString("hex");
}
