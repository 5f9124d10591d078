import type { Tracer } from "@opentelemetry/api";
import type { ReadableSpan, Sampler, SpanExporter } from "@opentelemetry/sdk-trace-base";
import { version } from "../../contract/version.js";
import type { Logger } from "../../domain/call/ports.js";

interface TracesOptions {
  /** URL that accepts spans by HTTP. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  readonly resource: Readonly<Record<string, string>>;
  /** A sampler's name in OpenTelemetry's environment variables. */
  readonly sampler: string;
  /** Share of traces for the samplers that take one, 0 to 1. */
  readonly samplerArg: number;
}

export interface Traces {
  readonly tracer: Tracer;
  /** Sends the remaining spans for at most `closeMs`; later ones are lost. */
  close(): Promise<void>;
}

/** Packages that send traces. They are optional: only a service that sends traces needs them. */
export const tracePackages = [
  "@opentelemetry/sdk-trace-base",
  "@opentelemetry/resources",
  "@opentelemetry/exporter-trace-otlp-http",
] as const;

/** The packages that send traces are not installed. */
export class TracePackagesMissing extends Error {
  override readonly name = "TracePackagesMissing";
  constructor(cause: unknown) {
    super(`packages that send traces are not installed: npm install ${tracePackages.join(" ")}`, { cause });
  }
}

/** Time for one batch of spans, including retries. */
const exportMs = 5_000;
/** Time that a stop waits for the last spans to be sent. */
const closeMs = 3_000;

/** Rejects with TracePackagesMissing when `load` rejects, which imports the packages. */
export async function openTraces(options: TracesOptions, log: Logger, load = importPackages): Promise<Traces> {
  const { sdk, resources, otlp } = await load().catch((cause: unknown) => {
    throw new TracePackagesMissing(cause);
  });
  const { endpoint, headers, serviceName, resource } = options;
  const exporter = new otlp.OTLPTraceExporter({ url: endpoint, headers: { ...headers }, timeoutMillis: exportMs });
  const provider = new sdk.BasicTracerProvider({
    sampler: samplerOf(sdk, options),
    resource: resources.resourceFromAttributes({
      ...resource,
      "service.name": serviceName,
      "service.version": version,
    }),
    spanProcessors: [new sdk.BatchSpanProcessor(new LoggingExporter(exporter, log))],
  });
  return {
    tracer: provider.getTracer("unified-inference", version),
    close: () => within(closeMs, provider.shutdown()),
  };
}

type Sdk = typeof import("@opentelemetry/sdk-trace-base");

/** The parts of the packages that are used. */
interface TracePackages {
  readonly sdk: Sdk;
  readonly resources: Pick<typeof import("@opentelemetry/resources"), "resourceFromAttributes">;
  readonly otlp: Pick<typeof import("@opentelemetry/exporter-trace-otlp-http"), "OTLPTraceExporter">;
}

async function importPackages(): Promise<TracePackages> {
  const [sdk, resources, otlp] = await Promise.all([
    import("@opentelemetry/sdk-trace-base"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/exporter-trace-otlp-http"),
  ]);
  return { sdk, resources, otlp };
}

function samplerOf(sdk: Sdk, { sampler, samplerArg }: TracesOptions): Sampler {
  const name = sampler.replace("parentbased_", "");
  let root: Sampler = new sdk.AlwaysOnSampler();
  if (name === "always_off") root = new sdk.AlwaysOffSampler();
  if (name === "traceidratio") root = new sdk.TraceIdRatioBasedSampler(samplerArg);
  return name === sampler ? root : new sdk.ParentBasedSampler({ root });
}

async function within(ms: number, promise: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}

type ExportResult = Parameters<Parameters<SpanExporter["export"]>[1]>[0];

/** The code of a successful export in OpenTelemetry's results. */
const success = 0;

/** An exporter that logs when exports begin to fail and when they succeed again, once per change. */
export class LoggingExporter implements SpanExporter {
  readonly #inner: SpanExporter;
  readonly #log: Logger;
  #isFailing = false;

  constructor(inner: SpanExporter, log: Logger) {
    this.#inner = inner;
    this.#log = log;
  }

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.#inner.export(spans, (result) => {
      this.#logChange(result);
      done(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.#inner.forceFlush?.();
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  #logChange({ code, error }: ExportResult): void {
    const isFailing = code !== success;
    if (isFailing === this.#isFailing) return;
    this.#isFailing = isFailing;
    if (isFailing) this.#log.warn({ reason: error?.message }, "trace export failed; dropping spans");
    else this.#log.info({}, "trace export succeeds again");
  }
}
