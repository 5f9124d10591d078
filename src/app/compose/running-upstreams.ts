import type { ServiceLimits } from "../../contract/limits.js";
import type { Logger } from "../../domain/call/ports.js";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { deploymentBounds } from "../../domain/engine/upstream-forms.js";
import type { UpstreamBook } from "../../domain/upstreams/upstream-book.js";
import { type StoredUpstream, toDefinition } from "../../domain/upstreams/upstream-store.js";
import type { UpstreamSource, UpstreamsInUse } from "../../domain/upstreams/upstreams-in-use.js";
import { type SecretBox, UnsealError } from "../../lib/crypto.js";
import type { ConfiguredModels } from "./model-catalog.js";
import type { ModelDiscovery } from "./model-discovery.js";

export interface RunningUpstreamsDeps {
  readonly book: UpstreamBook;
  readonly discovery: Pick<ModelDiscovery, "configure" | "problemOf">;
  readonly secrets: Pick<SecretBox, "open">;
  readonly limits: Pick<ServiceLimits, "deadlineMs">;
  readonly log: Logger;
}

const undecryptable =
  "Its key or headers cannot be decrypted: they were stored with another master key. Set them again, or delete it.";

/** Uses the upstreams of the configuration and the stored ones. Of two with the same name the former is used. */
export class RunningUpstreams implements UpstreamsInUse {
  readonly #deps: RunningUpstreamsDeps;
  /** Null until the start has read the configuration. */
  #config: ConfiguredModels["config"] | null = null;
  #configured: readonly UpstreamSource[] = [];
  /** Definitions of the stored upstreams that are in use, by name. */
  #opened: ReadonlyMap<string, UpstreamDefinition> = new Map();
  /** Names of stored upstreams that are ignored; each is logged once. */
  #hidden: ReadonlySet<string> = new Set();
  /** Names of stored upstreams whose secrets cannot be decrypted; each is logged once. */
  #unusable: ReadonlySet<string> = new Set();
  #offered: Promise<void> = Promise.resolve();

  constructor(deps: RunningUpstreamsDeps) {
    this.#deps = deps;
    deps.book.onChange(() => {
      if (this.#config === null) return;
      this.#open();
      void this.offer();
    });
  }

  get configured(): readonly UpstreamSource[] {
    return this.#configured;
  }

  get stored(): readonly StoredUpstream[] {
    return this.#deps.book.stored;
  }

  /** All definitions in use. */
  get definitions(): readonly UpstreamDefinition[] {
    return [...this.#configured.map(({ definition }) => definition), ...this.#opened.values()];
  }

  definitionOf(name: string): UpstreamDefinition | null {
    return this.definitions.find((definition) => definition.name === name) ?? null;
  }

  problemOf(name: string): string | null {
    const isStored = this.stored.some((one) => one.name === name);
    return isStored && this.definitionOf(name) === null ? undecryptable : this.#deps.discovery.problemOf(name);
  }

  async refresh(): Promise<void> {
    await this.#deps.book.refresh();
    await this.#offered;
  }

  /** Stores a new configuration. The models change with the next call of `offer`. */
  take({ config, upstreams }: ConfiguredModels): void {
    const { weight, priority, slots } = deploymentBounds;
    const offer = { models: [], weight: weight.default, priority: priority.default, slots: slots.default };
    this.#config = config;
    this.#configured = upstreams.map((definition) => ({ definition, ...offer }));
    this.#open();
  }

  /** Offers the models of all upstreams. Resolves when the models of new upstreams are loaded, at most 2 s later. */
  offer(): Promise<void> {
    const stored = this.stored.flatMap((one): UpstreamSource[] => {
      const definition = this.#opened.get(one.name);
      if (definition === undefined) return [];
      const { models, weight, priority, slots } = one;
      return [{ definition, models, weight, priority, slots }];
    });
    const { discovery, log } = this.#deps;
    this.#offered = discovery
      .configure(this.#config?.models ?? [], [...this.#configured, ...stored])
      .catch((err: unknown) => log.error({ err }, "the upstreams could not be changed"));
    return this.#offered;
  }

  /** Decrypts the stored upstreams that are not hidden by one of the configuration. */
  #open(): void {
    const { log } = this.#deps;
    const names = new Set(this.#configured.map(({ definition }) => definition.name));
    const hidden = this.stored.filter(({ name }) => names.has(name)).map(({ name }) => name);
    for (const upstream of hidden) {
      if (this.#hidden.has(upstream)) continue;
      log.warn({ upstream }, "the stored upstream is ignored: the configuration has one with the same name");
    }
    this.#hidden = new Set(hidden);
    const used = this.stored.filter(({ name }) => !names.has(name));
    const opened = used.map((one) => [one.name, this.#definition(one)] as const);
    this.#opened = new Map(opened.flatMap(([name, one]) => (one === null ? [] : [[name, one]])));
    this.#unusable = new Set(opened.filter(([, one]) => one === null).map(([name]) => name));
  }

  #definition(stored: StoredUpstream): UpstreamDefinition | null {
    const { secrets, limits, log } = this.#deps;
    try {
      return toDefinition(stored, secrets, limits.deadlineMs);
    } catch (err) {
      if (!(err instanceof UnsealError)) throw err;
      const text = "a stored upstream is not used: its secrets cannot be decrypted";
      if (!this.#unusable.has(stored.name)) log.error({ err, upstream: stored.name }, text);
      return null;
    }
  }
}
