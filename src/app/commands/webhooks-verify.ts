import { verifyWebhook, type WebhookRefusal } from "../../lib/webhook-signature.js";
import { type CliIo, CommandError, exitCode, printJson, printLine } from "../cli-io.js";
import { readDeliveryBody } from "./delivery-body.js";

export interface VerifyOptions {
  /** One of them must match. */
  readonly secret: string[];
  /** Value of Service-Signature. */
  readonly header: string;
  /** Unix time in seconds that takes the place of now. */
  readonly at?: number;
  readonly json?: boolean;
}

/** What a refusal means for somebody at a terminal. */
export const refusalTexts: Readonly<Record<WebhookRefusal, string>> = {
  missing_timestamp: "the header Service-Signature is missing or has no t",
  malformed_timestamp: "t is not made of digits",
  missing_signature: "the header has no v1",
  timestamp_too_old: "it was signed more than 300 seconds ago",
  timestamp_in_future: "it was signed for a time more than 300 seconds from now",
  signature_mismatch:
    "no v1 is of this body and this secret; the body must be the bytes that came, with no line end added",
};

/** `uis webhooks verify`: the body comes on stdin. Resolves with the exit code, 1 when the delivery is to be refused. */
export async function verifyDelivery(io: CliIo, options: VerifyOptions): Promise<number> {
  const { secret, header, at } = options;
  const body = await readDeliveryBody(io.stdin);
  if (body === null) throw new CommandError("more than 1 MiB on stdin: give the body of one delivery");
  const result = verifyWebhook({ secret, header, body, ...(at === undefined ? {} : { nowS: at }) });
  if (options.json) printJson(io, result.valid ? { valid: true } : { valid: false, reason: result.reason });
  else printLine(io, result.valid ? "valid" : `not valid: ${refusalTexts[result.reason]}`);
  return result.valid ? exitCode.done : exitCode.failed;
}
