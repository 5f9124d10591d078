import { Secret } from "../../lib/secret.js";
import type { Audit, AuditSource } from "../access/audit.js";
import { refuse, refuseValue, ServiceError } from "../call/service-error.js";
import type { UpstreamCheck, UpstreamDefinition, UpstreamKind } from "../engine/upstream.js";
import { upstreamDurations } from "../engine/upstream-forms.js";
import { checkHeaders, checkKey, checkServer } from "./upstream-input.js";
import type { UpstreamsInUse } from "./upstreams-in-use.js";

export interface UpstreamChecksDeps {
  readonly inUse: Pick<UpstreamsInUse, "definitionOf" | "problemOf">;
  /**
   * Calls a server once to check it. Follows no redirect, rejects link-local and metadata addresses, and takes at most 15 s.
   */
  readonly examine: (definition: UpstreamDefinition) => Promise<UpstreamCheck>;
  /** Lines of the configuration that add a server and its models, without a key. */
  readonly configOf: (url: string, kind: UpstreamKind, models: readonly string[], slots: number | null) => string;
  readonly audit: Pick<Audit, "record">;
}

/** Either the name of an upstream, or a server. */
export interface CheckInput {
  readonly name: string;
  readonly url: string;
  /** Empty: detected from the server. */
  readonly kind: string;
  /** Empty: none. */
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface CheckedUpstream {
  readonly url: string;
  /** The given or the detected kind. */
  readonly kind: UpstreamKind;
  readonly check: UpstreamCheck;
  /** Null if the upstream already exists or the check failed. */
  readonly config: string | null;
}

/** Maximum number of simultaneous checks in one process. */
const checksMax = 8;

/** Checks servers for the administrator. Rejects with ServiceError. */
export class UpstreamChecks {
  readonly #deps: UpstreamChecksDeps;
  #running = 0;

  constructor(deps: UpstreamChecksDeps) {
    this.#deps = deps;
  }

  async check(input: CheckInput, source: AuditSource): Promise<CheckedUpstream> {
    const { examine, configOf, audit } = this.#deps;
    const definition = input.name === "" ? newDefinition(input) : this.#existing(input);
    if (this.#running >= checksMax) {
      throw new ServiceError("conflict", `${checksMax} upstreams are being checked. Wait for one of the answers.`);
    }
    this.#running += 1;
    try {
      const check = await examine(definition);
      const { url } = definition;
      const details = { url_origin: new URL(url).origin, usable: String("facts" in check) };
      await audit.record(source, "upstream.check", input.name, details);
      if (!("facts" in check)) return { url, kind: definition.kind, check, config: null };
      const kind = check.facts.kind ?? definition.kind;
      const ids = check.facts.models.map(({ id }) => id);
      return { url, kind, check, config: input.name === "" ? configOf(url, kind, ids, check.facts.slots) : null };
    } finally {
      this.#running -= 1;
    }
  }

  #existing({ name, url, kind, key, headers }: CheckInput): UpstreamDefinition {
    const { inUse } = this.#deps;
    // A check by name must not set a URL: stored secrets are never sent to another server.
    const isAlone = [url, kind, key].every((text) => text === "") && Object.keys(headers).length === 0;
    if (!isAlone) refuseValue("name", "'name' excludes 'url', 'kind', 'key' and 'headers': set it, or them.");
    const definition = inUse.definitionOf(name);
    if (definition !== null) return definition;
    const problem = inUse.problemOf(name);
    if (problem !== null) throw new ServiceError("conflict", problem, { shouldRetry: false });
    return refuse("not_found", "name", "There is no upstream with this name.");
  }
}

function newDefinition({ url, kind, key, headers }: CheckInput): UpstreamDefinition {
  const checkedKey = checkKey(key);
  const { connect, firstByte, idle, total } = upstreamDurations;
  return {
    name: "new",
    ...checkServer(url, kind),
    apiVersion: null,
    keys: checkedKey === null ? [] : [new Secret(checkedKey)],
    headers: Object.fromEntries(
      [...checkHeaders(headers, checkedKey !== null)].map(([name, value]) => [name, new Secret(value)]),
    ),
    discoverMs: null,
    connectMs: connect.default,
    firstByteMs: firstByte.default,
    idleMs: idle.default,
    totalMs: total.default,
    tls: { ca: null, cert: null, key: null, serverName: null },
    native: [],
  };
}
