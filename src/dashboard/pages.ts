import type { ComponentType } from "preact";

export interface PageEntry {
  /** Last part of its address. */
  readonly name: string;
  readonly title: string;
  /** Its code is fetched when it is first shown. */
  readonly load: () => Promise<ComponentType>;
}

/** In the order of the navigation. */
export const pages: readonly PageEntry[] = [
  { name: "", title: "Overview", load: async () => (await import("./pages/overview.js")).Overview },
  { name: "keys", title: "API Keys", load: async () => (await import("./pages/keys.js")).Keys },
  { name: "usage", title: "Usage", load: async () => (await import("./pages/usage.js")).Usage },
  { name: "models", title: "Models", load: async () => (await import("./pages/models.js")).Models },
  { name: "playground", title: "Playground", load: async () => (await import("./pages/playground.js")).Playground },
  { name: "webhooks", title: "Webhooks", load: async () => (await import("./pages/webhooks.js")).Webhooks },
  { name: "deliveries", title: "Deliveries", load: async () => (await import("./pages/deliveries.js")).Deliveries },
  { name: "audit", title: "Audit", load: async () => (await import("./pages/audit.js")).AuditPage },
];
