import { fileURLToPath } from "node:url";
import type { StaticFiles } from "../../transports/dashboard/static-files.js";
import { readWebFile, readWebFolder } from "../../transports/dashboard/static-files.js";

/** The root folder of the package, from the sources and from the build alike. */
const at = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** Reads the dashboard and the pages about the API from this package. */
export async function readStaticFiles(): Promise<StaticFiles> {
  const [dashboard, documents, openApi] = await Promise.all([
    readWebFolder(at("dist/dashboard")),
    readWebFolder(at("dist/docs")),
    readWebFile(at("docs/openapi.json")),
  ]);
  return { dashboard, documents, openApi };
}

/** A page of the HTTP listener that needs no credential. */
export interface Page {
  readonly status: number;
  readonly body: object;
}

export interface Readiness {
  readonly isReady: boolean;
  /** Why it is not ready, or may soon not be; null: nothing to say. */
  readonly reason: "storage_unavailable" | null;
}

const alive: Page = { status: 200, body: { status: "ok" } };
const ready: Page = { status: 200, body: { status: "ready" } };
const notReady: Page = { status: 503, body: { status: "not_ready" } };
const home: Page = {
  status: 200,
  body: {
    service: "unified-inference",
    links: {
      api: "/v1",
      models: "/v1/models",
      dashboard: "/dashboard/",
      docs: "/docs/",
      openapi: "/openapi.json",
      health: "/health",
      ready: "/ready",
      version: "/version",
    },
  },
};

/** Liveness, readiness and links. `reason` is a code that tells an outsider nothing about the machine. */
export function publicPages(readinessNow: () => Readiness): ReadonlyMap<string, () => Page> {
  const readiness = (): Page => {
    const { isReady, reason } = readinessNow();
    const { status, body } = isReady ? ready : notReady;
    return { status, body: reason === null ? body : { ...body, reason } };
  };
  return new Map<string, () => Page>([
    ["/", () => home],
    ["/health", () => alive],
    ["/healthz", () => alive],
    ["/livez", () => alive],
    ["/ready", readiness],
    ["/readyz", readiness],
  ]);
}
