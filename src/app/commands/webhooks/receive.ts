import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { errorText, printable, printableLine } from "../../../lib/display-text.js";
import { verifyWebhook, type WebhookRefusal } from "../../../lib/webhook-signature.js";
import { type CliIo, CommandError, exitCode, print } from "../../command-line/cli-io.js";

interface ListenOptions {
  /** Port to listen on; 0 picks a free one. */
  readonly port: number;
  /** Secrets, any of which may match. Absent: signatures are not verified. */
  readonly secret?: string[];
  readonly json?: boolean;
}

const host = "127.0.0.1";

/**
 * `uis webhooks listen`: answers 200 to valid deliveries and 400 to others; without a secret it answers 200 to all. Resolves
 * after SIGINT or SIGTERM.
 */
export async function listenForDeliveries(io: CliIo, options: ListenOptions): Promise<void> {
  const server = createServer((request, response) => {
    receive(request, response, io, options).catch((cause: unknown) => {
      io.stderr.write(`Reading a delivery failed: ${errorText(cause)}\n`);
      response.destroy();
    });
  });
  const { port } = await open(server, options.port);
  const checks =
    options.secret === undefined ? "signatures are not verified without --secret" : "signatures are verified";
  io.stderr.write(`Listening at http://${host}:${port}/, ${checks}. Ctrl-C ends it.\n`);
  await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  server.close();
  server.closeAllConnections();
}

async function open(server: Server, port: number): Promise<AddressInfo> {
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (cause) {
    const reason = errorText(cause);
    throw new CommandError(`cannot listen on port ${port} (${reason}): choose another one with --port`, { cause });
  }
  return server.address() as AddressInfo;
}

async function receive(request: IncomingMessage, response: ServerResponse, io: CliIo, options: ListenOptions) {
  const { secret } = options;
  if (request.method !== "POST") {
    response.writeHead(405, { allow: "POST" }).end();
    return;
  }
  const body = await readDeliveryBody(request.iterator({ destroyOnReturn: false }));
  if (body === null) {
    response.writeHead(413, { connection: "close" }).end();
    return;
  }
  const header = request.headers["service-signature"];
  const check = secret === undefined ? null : verifyWebhook({ secret, header, body });
  const reason = check === null || check.valid ? null : check.reason;
  const received = toReceived(request, body, check?.valid ?? null, reason);
  print(io, options, received, receivedText(received));
  response.writeHead(reason === null ? 200 : 400).end(reason ?? "");
}

/** One delivery for `--json`. `valid` is null if it was not verified. */
function toReceived({ headers }: IncomingMessage, bytes: Buffer, valid: boolean | null, reason: WebhookRefusal | null) {
  const body = bytes.toString("utf8");
  return {
    received_at: new Date().toISOString(),
    delivery_id: textOrNull(headers["service-delivery-id"]),
    attempt: Number(headers["service-attempt"]) || null,
    event_id: textOrNull(headers["webhook-id"]),
    event_type: typeOf(body),
    valid,
    reason,
    body,
  };
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/** Null if the body is not JSON or has no type: any program may post here. */
function typeOf(body: string): string | null {
  try {
    const event: unknown = JSON.parse(body);
    return typeof event === "object" && event !== null && "type" in event ? textOrNull(event.type) : null;
  } catch {
    return null;
  }
}

function receivedText(received: ReturnType<typeof toReceived>): string {
  const { received_at, attempt, event_type, delivery_id, body, valid, reason } = received;
  const about = [event_type ?? "no event", delivery_id, attempt === null ? null : `attempt ${attempt}`];
  const verdict = valid === null ? "not verified" : reason === null ? "valid" : `NOT VALID: ${refusalTexts[reason]}`;
  const parts = [received_at.slice(11, 19), ...about.filter((part) => part !== null), verdict];
  return `${parts.map(printableLine).join("  ")}\n  ${printable(body)}`;
}

interface VerifyOptions {
  /** Secrets, any of which may match. */
  readonly secret: string[];
  /** Value of the header Service-Signature. */
  readonly header: string;
  /** Unix time in seconds, instead of the present. */
  readonly at?: number;
  readonly json?: boolean;
}

/** Explanation of each reason. */
const refusalTexts: Readonly<Record<WebhookRefusal, string>> = {
  missing_timestamp: "the header Service-Signature is missing or has no timestamp t",
  malformed_timestamp: "the timestamp t must consist of digits",
  missing_signature: "the header has no signature v1",
  timestamp_too_old: "it was signed more than 300 seconds ago",
  timestamp_in_future: "it was signed for a time more than 300 seconds from now",
  signature_mismatch:
    "no signature v1 matches this body and secret; the body must be unchanged, without an added line break",
};

/** `uis webhooks verify`: reads the body from stdin. Resolves with the exit code, 1 if the delivery is not valid. */
export async function verifyDelivery(io: CliIo, options: VerifyOptions): Promise<number> {
  const { secret, header, at } = options;
  const body = await readDeliveryBody(io.stdin);
  if (body === null) throw new CommandError("more than 1 MiB on stdin: pass the body of one delivery");
  const result = verifyWebhook({ secret, header, body, ...(at === undefined ? {} : { nowS: at }) });
  if (result.valid) {
    print(io, options, { valid: true }, "valid");
    return exitCode.done;
  }
  print(io, options, { valid: false, reason: result.reason }, `not valid: ${refusalTexts[result.reason]}`);
  return exitCode.failed;
}

/** Maximum size of a body; the service sends far smaller bodies. */
const deliveryBytesMax = 1_048_576;

/** Reads a whole body; null if it is too large. */
async function readDeliveryBody(source: AsyncIterable<Uint8Array>): Promise<Buffer | null> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of source) {
    length += chunk.length;
    if (length > deliveryBytesMax) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
