import { groupBy } from "../../lib/collections.js";
import type { SecretBox } from "../../lib/crypto.js";
import type { Audit, AuditSource } from "../access/audit.js";
import { quote, refuse, ServiceError } from "../call/service-error.js";
import type { Catalog } from "../catalog/catalog.js";
import type { Deployment } from "../catalog/deployment.js";
import type { DrainedDeployments, DrainStore } from "../catalog/drained-deployments.js";
import { hintOf, type ShownUpstream, shownConfigured, shownStored } from "./shown-upstream.js";
import {
  checkChoices,
  checkHeaders,
  checkKey,
  checkNewUpstream,
  checkUpstreamName,
  type UpstreamChoices,
  type UpstreamInput,
  type UpstreamSecrets,
} from "./upstream-input.js";
import { type StoredUpstream, secretOwner, type UpstreamStore } from "./upstream-store.js";
import type { UpstreamsInUse } from "./upstreams-in-use.js";

export interface UpstreamAdminDeps {
  readonly store: UpstreamStore;
  readonly drains: DrainStore;
  readonly inUse: UpstreamsInUse;
  readonly drained: Pick<DrainedDeployments, "refresh">;
  readonly catalog: Pick<Catalog, "deployments">;
  readonly secrets: Pick<SecretBox, "seal">;
  readonly audit: Pick<Audit, "record">;
  /** Store time. */
  readonly now: () => number;
}

const changeTriesMax = 5;

/**
 * Administration of upstreams. Upstreams of the configuration are read-only. Stored upstreams and drained deployments apply
 * to every replica. Every change is audited (KEY-23). Rejects with ServiceError.
 */
export class UpstreamAdmin {
  readonly #deps: UpstreamAdminDeps;

  constructor(deps: UpstreamAdminDeps) {
    this.#deps = deps;
  }

  /** All upstreams, sorted by name. */
  list(): readonly ShownUpstream[] {
    const { configured, stored } = this.#deps.inUse;
    const names = new Set(configured.map(({ definition }) => definition.name));
    const storedNames = new Set(stored.map(({ name }) => name));
    const deployments = this.#deploymentsByUpstream();
    const present = (name: string) => this.#present(name, deployments.get(name) ?? []);
    return [
      ...configured.map((source) => {
        const { name } = source.definition;
        return shownConfigured(source, storedNames.has(name), present(name));
      }),
      ...stored.filter(({ name }) => !names.has(name)).map((one) => shownStored(one, present(one.name))),
    ].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Waits at most 2 s for the first list of its models. Rejects with `invalid_value` naming the field, or `conflict`. */
  async create(
    name: string,
    input: UpstreamInput,
    secrets: UpstreamSecrets,
    source: AuditSource,
  ): Promise<ShownUpstream> {
    const { store, audit, now } = this.#deps;
    checkUpstreamName(name);
    this.#refuseConfigured(name, "choose another name");
    const choices = checkNewUpstream(input);
    const nowMs = now();
    const stored: StoredUpstream = {
      name,
      ...choices,
      ...this.#sealed(name, secrets, null),
      version: 1,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    };
    if (!(await store.insert(stored))) {
      throw refused(`There is an upstream with the name ${quote(name)}. Update it, or choose another name.`);
    }
    await audit.record(source, "upstream.create", name, detailsOf(choices, secrets));
    return await this.#applied(stored);
  }

  /** Changes a stored upstream. If another request changes it at the same time, the change is repeated on the new version. */
  async update(
    name: string,
    input: UpstreamInput,
    secrets: UpstreamSecrets,
    source: AuditSource,
  ): Promise<ShownUpstream> {
    const { store, audit, now } = this.#deps;
    this.#refuseConfigured(name, "change it there");
    for (let tries = 0; tries < changeTriesMax; tries += 1) {
      const before = await this.#find(name);
      const choices = checkChoices(before, input);
      checkDestination(before, choices, secrets);
      const sealed = this.#sealed(name, secrets, before);
      const after = { ...before, ...choices, ...sealed, version: before.version + 1, updatedAtMs: now() };
      const outcome = await store.replace(after);
      if (outcome === "unknown") return refuseUnknown(name);
      if (outcome === "changed") continue;
      await audit.record(source, "upstream.update", name, detailsOf(choices, secrets));
      return await this.#applied(after);
    }
    throw new ServiceError("conflict", "The upstream is being changed by other requests. Try again.");
  }

  /** Also removes the drains of its deployments. */
  async remove(name: string, source: AuditSource): Promise<void> {
    const { store, drains, inUse, drained, audit } = this.#deps;
    const isHidden = this.#isConfigured(name);
    if (!(await store.remove(name))) {
      this.#refuseConfigured(name, "remove it there");
      refuseUnknown(name);
    }
    await audit.record(source, "upstream.delete", name);
    if (!isHidden) {
      const own = (await drains.list()).filter(({ id }) => id.startsWith(`${name}/`));
      for (const { id } of own) await drains.remove(id);
      if (own.length > 0) await drained.refresh();
    }
    await inUse.refresh();
  }

  /**
   * Drains a deployment, so that it gets no new requests, or ends the drain. Idempotent. Returns null if the drain of a
   * deployment that no longer exists was ended.
   */
  async drain(id: string, isDraining: boolean, source: AuditSource): Promise<Deployment | null> {
    const { drains, drained, audit, now } = this.#deps;
    if (isDraining) {
      if (this.#deployment(id) === null) refuseDeployment(id);
      await drains.insert({ id, sinceMs: now() });
    } else if (!(await drains.remove(id)) && this.#deployment(id) === null) refuseDeployment(id);
    await audit.record(source, isDraining ? "deployment.drain" : "deployment.undrain", id);
    await drained.refresh();
    return this.#deployment(id);
  }

  #deployment(id: string): Deployment | null {
    return this.#deps.catalog.deployments().find((deployment) => deployment.id === id) ?? null;
  }

  #deploymentsByUpstream(): ReadonlyMap<string | null, readonly Deployment[]> {
    return groupBy(this.#deps.catalog.deployments(), ({ upstream }) => upstream);
  }

  #present(name: string, deployments: readonly Deployment[]) {
    const sorted = [...deployments].sort((a, b) => (a.id < b.id ? -1 : 1));
    return { problem: this.#deps.inUse.problemOf(name), deployments: sorted };
  }

  async #applied(stored: StoredUpstream): Promise<ShownUpstream> {
    await this.#deps.inUse.refresh();
    const { name } = stored;
    return shownStored(stored, this.#present(name, this.#deploymentsByUpstream().get(name) ?? []));
  }

  async #find(name: string): Promise<StoredUpstream> {
    const all = await this.#deps.store.list();
    return all.find((stored) => stored.name === name) ?? refuseUnknown(name);
  }

  #isConfigured(name: string): boolean {
    return this.#deps.inUse.configured.some(({ definition }) => definition.name === name);
  }

  #refuseConfigured(name: string, fix: string): void {
    if (this.#isConfigured(name)) throw refused(`The upstream ${quote(name)} is part of the configuration: ${fix}.`);
  }

  /** The encrypted secrets of an upstream after a change; `before` is null for a new upstream. */
  #sealed(
    name: string,
    { key, headers }: UpstreamSecrets,
    before: StoredUpstream | null,
  ): Pick<StoredUpstream, "sealedKey" | "keyHint" | "headers"> {
    const { secrets } = this.#deps;
    const checkedKey = key === undefined ? undefined : checkKey(key);
    const hasKey = checkedKey === undefined ? (before?.sealedKey ?? null) !== null : checkedKey !== null;
    const kept = Object.fromEntries((before?.headers ?? []).map(({ name: header }) => [header, "kept"]));
    const checkedHeaders = checkHeaders(headers ?? kept, hasKey);
    const seal = (text: string, header: string | null): string => secrets.seal(text, secretOwner(name, header));
    const ofKey =
      checkedKey === undefined
        ? { sealedKey: before?.sealedKey ?? null, keyHint: before?.keyHint ?? "" }
        : { sealedKey: checkedKey === null ? null : seal(checkedKey, null), keyHint: hintOf(checkedKey ?? "") };
    return {
      ...ofKey,
      headers:
        headers === undefined
          ? (before?.headers ?? [])
          : [...checkedHeaders].map(([header, value]) => ({ name: header, sealed: seal(value, header) })),
    };
  }
}

/** Stored secrets are never sent to a server for which they were not given. */
function checkDestination(before: StoredUpstream, after: UpstreamChoices, { key, headers }: UpstreamSecrets): void {
  if (new URL(before.url).origin === new URL(after.url).origin) return;
  const why = "because 'url' leads to another server; leave it empty to remove it";
  if (before.sealedKey !== null && key === undefined) {
    refuse("missing_required_parameter", "key", `'key' must be set again, ${why}.`);
  }
  if (before.headers.length > 0 && headers === undefined) {
    refuse("missing_required_parameter", "headers", `'headers' must be set again, ${why}.`);
  }
}

function refused(sentence: string): ServiceError {
  return new ServiceError("conflict", sentence, { shouldRetry: false });
}

function refuseUnknown(name: string): never {
  return refuse("not_found", "name", `There is no stored upstream with the name ${quote(name)}.`);
}

function refuseDeployment(id: string): never {
  return refuse("not_found", "id", `There is no deployment with the id ${quote(id)}.`);
}

/** Values for the audit log. Path and secrets are left out. */
function detailsOf(choices: UpstreamChoices, { key, headers }: UpstreamSecrets): Record<string, string> {
  const { url, kind, models, weight, priority, slots } = choices;
  return {
    url_origin: new URL(url).origin,
    kind,
    ...(models.length === 0 ? {} : { models: models.join(",") }),
    weight: String(weight),
    priority: String(priority),
    slots: String(slots),
    ...(key === undefined ? {} : { key: key === "" ? "none" : "set" }),
    ...(headers === undefined ? {} : { headers: Object.keys(headers).join(",") }),
  };
}
