/** A page of the HTTP listener that needs no credential. */
export interface Page {
  readonly status: number;
  readonly body: object;
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

/** Alive or not, ready or not, and what is found here: nothing that tells an outsider more. */
export function publicPages(isReady: () => boolean): ReadonlyMap<string, () => Page> {
  const readiness = () => (isReady() ? ready : notReady);
  return new Map<string, () => Page>([
    ["/", () => home],
    ["/health", () => alive],
    ["/healthz", () => alive],
    ["/livez", () => alive],
    ["/ready", readiness],
    ["/readyz", readiness],
  ]);
}
