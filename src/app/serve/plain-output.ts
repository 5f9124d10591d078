import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../domain/call/ports.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import { createLogger, openStderrSink } from "../../telemetry/logger.js";
import { prettyFormat } from "../../telemetry/pretty-line.js";
import { type CliIo, hasColors } from "../command-line/cli-io.js";
import type { Config } from "../config/schema.js";
import type { Service } from "../service/service.js";
import { findServersBeside } from "./local-servers.js";
import { commandName, modelReadyText, nextStepText, readyChat, readyLine, readyText } from "./start-text.js";

/** What `uis serve` writes while it runs. */
export interface ServeOutput {
  readonly log: Logger;
  /** Shows the addresses and the first steps. Resolves when all is written; when `stopping` aborts it writes no more. */
  started(service: Service, stopping: AbortSignal): Promise<void>;
  /** Called when the stop begins; `drainMs` is set if a person waits for it. */
  stopping(service: Service, drainMs: number | null): void;
  /** Writes pending lines before the process ends. */
  flush(): void;
}

interface PlainSettings {
  readonly level: Config["log"]["level"];
  readonly isPretty: boolean;
  readonly json: boolean;
}

/** Output to a pipe, a file or a terminal without control sequences. */
export class PlainOutput implements ServeOutput {
  readonly log: Logger;
  readonly #io: CliIo;
  readonly #json: boolean;
  readonly #sink = openStderrSink();

  constructor(io: CliIo, { level, isPretty, json }: PlainSettings) {
    this.#io = io;
    this.#json = json;
    const toPretty = prettyFormat({ colors: hasColors(io.stderr, io.env) });
    const sink = isPretty ? { write: (line: string) => this.#sink.write(toPretty(line)) } : this.#sink;
    this.log = createLogger({ level, sink });
  }

  async started(service: Service, stopping: AbortSignal): Promise<void> {
    const { stdout } = this.#io;
    if (this.#json) {
      stdout.write(`${JSON.stringify(readyLine(service))}\n`);
      return;
    }
    stdout.write(readyText(service, { uis: commandName(this.#io.env) }));
    const [servers] = await Promise.all([findServersBeside(service), choiceOf(service, stopping)]);
    stdout.write(nextStepText(service, servers));
    if (readyChat(service.parts.catalog) !== null) return;
    const chat = await firstReadyChat(service, stopping);
    if (chat !== null) stdout.write(`${modelReadyText(chat)}\n`);
  }

  stopping(): void {}

  flush(): void {
    this.#sink.flush();
  }
}

/** How long the first steps wait for the choice of the chat model; longer than the timeout of a hub. */
const choiceMsMax = 6_000;

async function choiceOf({ chatChosen }: Service, stopping: AbortSignal): Promise<void> {
  await Promise.race([chatChosen, delay(choiceMsMax, undefined, { ref: false, signal: stopping }).catch(() => {})]);
}

/** The first chat model that can answer, as soon as there is one; null when all models are loaded or have failed, or `stopping` aborts. */
async function firstReadyChat(service: Service, stopping: AbortSignal): Promise<CatalogModel | null> {
  const { catalog } = service.parts;
  let unsubscribe = (): void => {};
  const found = new Promise<void>((resolve) => {
    unsubscribe = catalog.onChange(() => {
      if (readyChat(catalog) !== null) resolve();
    });
    stopping.addEventListener("abort", () => resolve(), { once: true });
  });
  await Promise.race([found, service.modelsLoaded]);
  unsubscribe();
  return stopping.aborted ? null : readyChat(service.parts.catalog);
}
