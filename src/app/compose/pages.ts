import { fileURLToPath } from "node:url";
import type { SpoolLevel } from "../../domain/metering/ledger.js";
import type { State } from "../../domain/service/state.js";
import { readWebFile, readWebFolder, type StaticFiles } from "../../transports/dashboard/static-files.js";
import type { Phase } from "../process/lifecycle.js";
import { identityPath, proofOf } from "../process/token-proof.js";

/** Location of a path of the package. It works from the sources and from the build. */
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

/** The cores of a gateway; null in any other role. */
type CoresOf = { readonly isReachable: boolean } | null;

/** A page of the HTTP listener that needs no credential. */
interface Page {
  readonly status: number;
  readonly body: object;
}

const alive: Page = { status: 200, body: { status: "ok" } };
const links = {
  api: "/v1",
  models: "/v1/models",
  dashboard: "/dashboard/",
  docs: "/docs/",
  openapi: "/openapi.json",
  health: "/health",
  ready: "/ready",
  version: "/version",
};
const home: Page = { status: 200, body: { service: "unified-inference", links } };

/**
 * Liveness, readiness, links and the proof that this process holds `folderToken`, the token in its data folder. The reason
 * of a readiness is a code that shows an outsider nothing about the machine.
 */
export function publicPages(
  process: { readonly phase: Phase },
  { spooled, fileFault, cores }: Pick<State, "fileFault"> & { readonly spooled: () => SpoolLevel; cores: CoresOf },
  folderToken: string,
): ReadonlyMap<string, (target: string) => Page> {
  const readiness = (): Page => {
    const spool = spooled();
    const hasCore = cores?.isReachable !== false;
    const isReady = hasCore && acceptsInference(process.phase, spool, fileFault());
    const isStored = spool.fault === null && spool.memoryOnly === 0 && fileFault() === null;
    const reason = hasCore ? "storage_unavailable" : "no_core_reachable";
    const body = { status: isReady ? "ready" : "not_ready", ...(!(isStored && hasCore) && { reason }) };
    return { status: isReady ? 200 : 503, body };
  };
  return new Map<string, (target: string) => Page>([
    ["/", () => home],
    [identityPath, (target) => identity(folderToken, target)],
    ["/health", () => alive],
    ["/healthz", () => alive],
    ["/livez", () => alive],
    ["/ready", readiness],
    ["/readyz", readiness],
  ]);
}

function identity(folderToken: string, target: string): Page {
  const challenge = new URLSearchParams(target.split("?")[1]).get("challenge") ?? "";
  return { status: 200, body: { service: "unified-inference", proof: proofOf(folderToken, challenge) } };
}

/**
 * `/ready` of the operations listener. An unavailable store is shown and leaves the service ready: inference continues, and
 * taking every replica out of the load balancer would not help. A replica that rejects inference because its disk and its
 * memory are full, or whose data files were deleted or moved, is not ready; nor is a gateway that reaches no core.
 */
export async function readiness(
  phase: Phase,
  state: Pick<State, "kind" | "health" | "fileFault">,
  spool: SpoolLevel,
  cores: CoresOf,
) {
  const { ok, latencyMs, durability, writeFault, warnings } = await state.health();
  const hasCore = cores?.isReachable !== false;
  return {
    ready: hasCore && acceptsInference(phase, spool, state.fileFault()),
    detail: {
      status: phase,
      reason: hasCore ? storageReason(writeFault, spool) : "no core of core.addresses is reachable",
      state: { kind: state.kind, ok, latency_ms: latencyMs, durability, write_fault: writeFault, warnings },
      usage: { spooled: spool.size, memory_only: spool.memoryOnly, spool_fault: spool.fault },
    },
  };
}

function acceptsInference(phase: Phase, spool: SpoolLevel, fileFault: string | null): boolean {
  return phase === "ready" && fileFault === null && !(spool.fault !== null && spool.size >= spool.sizeMax);
}

function storageReason(writeFault: string | null, spool: SpoolLevel): string | null {
  const parts: string[] = [];
  if (writeFault !== null) parts.push(`the store cannot be written: ${writeFault}`);
  if (spool.fault !== null) parts.push(`the spool cannot be written: ${spool.fault}`);
  if (spool.memoryOnly > 0) parts.push(`the usage of ${spool.memoryOnly} finished requests is in memory only`);
  return parts.length === 0 ? null : parts.join("; ");
}
