import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A span in OTLP's JSON format; times are nanoseconds as text. */
export interface ReceivedSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

interface OtlpValue {
  readonly arrayValue?: { readonly values: readonly OtlpValue[] };
  readonly [form: string]: unknown;
}
type OtlpAttributes = readonly { readonly key: string; readonly value: OtlpValue }[];
interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: OtlpAttributes };
    readonly scopeSpans: readonly { readonly spans: readonly (ReceivedSpan & { attributes: OtlpAttributes })[] }[];
  }[];
}

export interface TraceReceiver {
  /** Value for OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly endpoint: string;
  readonly spans: readonly ReceivedSpan[];
  /** The bodies as received. */
  readonly bodies: readonly string[];
  /** Headers of the last request. */
  readonly headers: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
  close(): Promise<void>;
}

/** Receives spans by OTLP over HTTP, in its JSON format. */
export async function startTraceReceiver(): Promise<TraceReceiver> {
  const spans: ReceivedSpan[] = [];
  const bodies: string[] = [];
  const seen = { headers: {}, resource: {} };
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const body = Buffer.concat(chunks).toString();
      bodies.push(body);
      seen.headers = req.headers;
      if (req.url === "/v1/traces") {
        for (const { resource, scopeSpans } of (JSON.parse(body) as OtlpBody).resourceSpans) {
          seen.resource = plain(resource.attributes);
          for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
            spans.push({ ...span, attributes: plain(span.attributes) });
          }
        }
      }
      res.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    get headers() {
      return seen.headers;
    },
    get resource() {
      return seen.resource;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function plain(attributes: OtlpAttributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]));
}

function plainValue(value: OtlpValue): unknown {
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(plainValue);
  return Object.values(value)[0];
}
