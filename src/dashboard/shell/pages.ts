/** The pages in the order of the navigation. */
import type { ComponentType } from "preact";
import type { IconName } from "../ui/icon.js";

export interface PageEntry {
  /** The page's name in links; `lib/location.tsx` maps it to the path. */
  readonly name: string;
  readonly title: string;
  readonly icon: IconName;
  /** Whether the page shows one account, `account` in its URL, and the frame has a switcher for it. Default: false. */
  readonly isOfAccount?: boolean;
  /** Fetches the page's code, when the page is first shown. */
  readonly load: () => Promise<ComponentType>;
}

export interface PageGroup {
  /** Empty: a group without a heading. */
  readonly title: string;
  readonly pages: readonly PageEntry[];
}

export const groups: readonly PageGroup[] = [
  {
    title: "Build",
    pages: [
      {
        name: "models",
        title: "Models",
        icon: "models",
        load: async () => (await import("../pages/models/models.js")).Models,
      },
      {
        name: "playground",
        title: "Playground",
        icon: "playground",
        load: async () => (await import("../pages/playground/playground.js")).Playground,
      },
      {
        name: "upstreams",
        title: "Upstreams",
        icon: "upstreams",
        load: async () => (await import("../pages/upstreams/upstreams.js")).Upstreams,
      },
    ],
  },
  {
    title: "Monitor",
    pages: [
      {
        name: "",
        title: "Overview",
        icon: "overview",
        load: async () => (await import("../pages/overview/overview.js")).Overview,
      },
      {
        name: "usage",
        title: "Usage",
        icon: "usage",
        isOfAccount: true,
        load: async () => (await import("../pages/usage/usage.js")).Usage,
      },
      {
        name: "requests",
        title: "Requests",
        icon: "requests",
        load: async () => (await import("../pages/requests/requests.js")).Requests,
      },
      {
        name: "deliveries",
        title: "Deliveries",
        icon: "deliveries",
        load: async () => (await import("../pages/deliveries/deliveries.js")).Deliveries,
      },
    ],
  },
  {
    title: "Settings",
    pages: [
      { name: "keys", title: "API keys", icon: "key", load: async () => (await import("../pages/keys/keys.js")).Keys },
      {
        name: "webhooks",
        title: "Webhooks",
        icon: "webhooks",
        isOfAccount: true,
        load: async () => (await import("../pages/webhooks/webhooks.js")).Webhooks,
      },
    ],
  },
  {
    title: "",
    pages: [
      {
        name: "audit",
        title: "Audit",
        icon: "audit",
        load: async () => (await import("../pages/audit/audit.js")).Audit,
      },
    ],
  },
];

/** Null: there is no such page. */
export function pageNamed(name: string): PageEntry | null {
  return groups.flatMap(({ pages }) => pages).find((page) => page.name === name) ?? null;
}
