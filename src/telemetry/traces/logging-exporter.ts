import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";
import type { Logger } from "../../domain/call/ports.js";

type ExportResult = Parameters<Parameters<SpanExporter["export"]>[1]>[0];

/** 0 stands for success in OpenTelemetry's results. */
const success = 0;

/** An exporter that tells the log when spans cease to be taken and when they are taken again, once per change. */
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
      this.#tell(result);
      done(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.#inner.forceFlush?.();
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  #tell({ code, error }: ExportResult): void {
    const isFailing = code !== success;
    if (isFailing === this.#isFailing) return;
    this.#isFailing = isFailing;
    if (isFailing) this.#log.warn({ reason: error?.message }, "traces are not taken, spans are dropped");
    else this.#log.info({}, "traces are taken again");
  }
}
