import type { Deployment } from "../../domain/catalog/deployment.js";
import type { LoadProgress } from "../../domain/engine/engine.js";
import { DownloadText, timeText } from "../command-line/download-text.js";

/** Whether an embedded engine is loading the deployment. Models of upstreams have no progress of loading. */
export function isLoading({ upstream, model, failure }: Deployment): boolean {
  return upstream === null && model === null && failure === null;
}

/** From this share on the weights are read, and the engine prepares its memory, which has no progress. */
const almostAll = 0.99;

/** Maximum number of rows that are shown: more would not fit on a small terminal. */
const rowsMax = 8;

/** A deployment that is loading. */
interface LoadingRow {
  readonly modelId: string;
  readonly stage: LoadProgress["stage"];
  /** When the stage began. */
  readonly sinceMs: number;
  readonly download: DownloadText;
}

/** One row for each deployment that is loading. */
export class LoadingRows {
  rows: readonly string[] = [];
  readonly #nowMs: () => number;
  #shown: ReadonlyMap<string, LoadingRow> = new Map();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Updates `rows`, at most `width` columns wide. Returns the ids of models whose load has ended since the last call. */
  update(loading: readonly Deployment[], width: number): ReadonlySet<string> {
    const former = this.#shown;
    const rows = new Map(
      loading.map((deployment) => [deployment.id, this.#rowOf(deployment, former.get(deployment.id))]),
    );
    this.#shown = rows;
    const texts = loading.map((deployment) => this.#text(deployment, rows.get(deployment.id), width));
    const more = texts.length - rowsMax;
    this.rows = more <= 0 ? texts : [...texts.slice(0, rowsMax), `… and ${more} more`];
    const ended = [...former].filter(([id]) => !rows.has(id));
    return new Set(ended.map(([, { modelId }]) => modelId));
  }

  #rowOf({ modelId, progress }: Deployment, former: LoadingRow | undefined): LoadingRow {
    const stage = progress?.stage ?? "loading";
    if (former?.stage === stage) return former;
    const nowMs = this.#nowMs();
    return { modelId, stage, sinceMs: nowMs, download: new DownloadText(this.#nowMs) };
  }

  #text({ modelId, progress }: Deployment, row: LoadingRow | undefined, width: number): string {
    if (row === undefined) return modelId;
    const { receivedBytes, totalBytes = null, share = 0 } = progress ?? {};
    if (row.stage === "fetching" && receivedBytes !== undefined) {
      const name = `${modelId} `;
      return name + row.download.bar({ receivedBytes, totalBytes }, width - name.length);
    }
    const took = timeText((this.#nowMs() - row.sinceMs) / 1_000);
    const work = { fetching: "connecting…", converting: "building…", loading: "loading…" }[row.stage];
    const percent = row.stage === "loading" && share > 0 && share < almostAll ? `  ${Math.floor(share * 100)} %` : "";
    return `${modelId} ${work}${percent}  ${took}`;
  }
}
