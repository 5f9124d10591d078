import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../domain/call/ports.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import { EngineError } from "../../domain/engine/engine.js";
import { createLogger, type LogLevel } from "../../telemetry/logger.js";
import { prettyFormat } from "../../telemetry/pretty-line.js";
import { type CliIo, hasColors } from "../command-line/cli-io.js";
import { columnsDefault, LiveRows } from "../command-line/live-rows.js";
import { paintFor } from "../command-line/table.js";
import type { Service } from "../service/service.js";
import { isLoading, LoadingRows } from "./loading-rows.js";
import { findServersBeside } from "./local-servers.js";
import type { ServeOutput } from "./plain-output.js";
import {
  commandName,
  modelReadyText,
  noModelText,
  readyChat,
  readyLine,
  readyText,
  serversText,
  stopText,
  tryText,
} from "./start-text.js";

/** Messages of the log that the terminal shows in another form: as progress, as the first steps, or as text of the stop. */
const shownOtherwise: ReadonlySet<string> = new Set([
  "fetching a model",
  "engine process has loaded its model",
  "no chat model could be loaded",
  "stop requested",
  "stopping",
]);

const redrawMs = 100;

interface TerminalSettings {
  readonly level: LogLevel;
  /** Whether the only text on stdout is the line of `--json`. */
  readonly json: boolean;
}

/** The output of `uis serve` on a terminal: text, lines of the log, and below them one row for each model that is loading. */
export class TerminalOutput implements ServeOutput {
  readonly log: Logger;
  readonly #io: CliIo;
  readonly #json: boolean;
  readonly #rows: LiveRows;

  constructor(io: CliIo, { level, json }: TerminalSettings) {
    this.#io = io;
    this.#json = json;
    this.#rows = new LiveRows(io.stderr);
    const toPretty = prettyFormat({ colors: hasColors(io.stderr, io.env) });
    this.log = withoutShown(createLogger({ level, sink: { write: (line) => this.#rows.write(toPretty(line)) } }));
  }

  async started(service: Service, stopping: AbortSignal): Promise<void> {
    if (this.#json) this.#io.stdout.write(`${JSON.stringify(readyLine(service))}\n`);
    else
      this.#say(
        readyText(service, {
          paint: paintFor(this.#io.stdout, this.#io.env),
          uis: commandName(this.#io.env),
          stops: stopText,
        }),
      );
    const servers = findServersBeside(service).then((found) => this.#say(serversText(found)));
    await this.#showLoading(service, stopping);
    await servers;
  }

  stopping({ parts }: Service, drainMs: number | null): void {
    if (drainMs === null) return;
    const running = parts.live.size;
    const what = running === 1 ? "1 running request gets" : `${running} running requests get`;
    const text = running === 0 ? "Stopping." : `Stopping: ${what} up to ${drainMs / 1_000} s.`;
    this.#rows.write(`${text} Press Ctrl-C again to stop at once.\n`);
  }

  flush(): void {
    this.#rows.end();
  }

  /** Writes a text about the start; with `--json` it is left out. */
  #say(text: string): void {
    if (this.#json || text === "") return;
    if (this.#io.stdout.isTTY === true) this.#rows.write(text);
    else this.#io.stdout.write(text);
  }

  /** Shows progress until all models are loaded or have failed, each model that became ready, and a first request. */
  async #showLoading(service: Service, stopping: AbortSignal): Promise<void> {
    const { catalog } = service.parts;
    const loading = new LoadingRows(() => performance.now());
    let isLoaded = false;
    void service.modelsLoaded.finally(() => {
      isLoaded = true;
    });
    let chat: CatalogModel | null = null;
    while (!stopping.aborted) {
      const isLast = isLoaded;
      const width = (this.#io.stderr.columns ?? columnsDefault) - 1;
      const ended = loading.update(catalog.deployments().filter(isLoading), width);
      this.#rows.show(loading.rows);
      const others = catalog.all().filter((model) => ended.has(model.id) && model.caps !== null);
      if (chat === null) {
        chat = readyChat(catalog);
        if (chat !== null)
          this.#say(`${modelReadyText(chat)}, try:\n\n  ${tryText(service, chat.id, commandName(this.#io.env))}\n\n`);
      }
      for (const model of others) if (model !== chat) this.#say(`${modelReadyText(model)}\n`);
      if (isLast) break;
      await delay(redrawMs, undefined, { signal: stopping, ref: false }).catch(() => {});
    }
    this.#rows.end();
    if (chat === null && !stopping.aborted) this.#say(noModelText(service));
  }
}

function withoutShown(log: Logger): Logger {
  const writeAt =
    (level: keyof Logger): Logger["info"] =>
    (fields, message) => {
      const error = "err" in fields ? fields.err : null;
      // The model is not on this machine and cannot be downloaded: the message of the error has cause and remedy.
      if (error instanceof EngineError && error.code === "model_not_loaded") log[level]({}, error.message);
      else if (!shownOtherwise.has(message)) log[level](fields, message);
    };
  return { debug: writeAt("debug"), info: writeAt("info"), warn: writeAt("warn"), error: writeAt("error") };
}
