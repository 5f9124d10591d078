import {
  type AuditLog,
  type AuditPage,
  type AuditRecord,
  auditCursorOf,
  parseAuditCursor,
} from "../../domain/access/audit.js";
import type { RedisClient } from "./connection/client.js";
import { documentKeys, placeOf } from "./documents.js";

const form = 1;
const keptForMs = 400 * 24 * 3_600_000;
/** Some 500 bytes each: half a gigabyte. Beyond it the oldest go, however young. */
const recordsMax = 1_000_000;

/** Members of the sorted set begin with their place, so they stand in the order of time. */
export class RedisAuditLog implements AuditLog {
  readonly #client: RedisClient;
  readonly #key: string;

  constructor(client: RedisClient) {
    this.#client = client;
    this.#key = documentKeys(client.prefix).audit;
  }

  async append(record: AuditRecord): Promise<void> {
    const member = `${placeOf(record.atMs, record.id)} ${JSON.stringify({ v: form, ...record })}`;
    await this.#client.command("zadd", [this.#key, 0, member]);
  }

  async list(page: { readonly limit: number; readonly after: string | null }): Promise<AuditPage> {
    const place = page.after === null ? null : parseAuditCursor(page.after);
    const begin = place === null ? "+" : `(${placeOf(place.atMs, place.id)}`;
    // One more than asked for tells whether there is a next page.
    const range = [this.#key, begin, "-", "LIMIT", 0, page.limit + 1];
    const found = (await this.#client.command<string[]>("zrevrangebylex", range)).map(parseRecord);
    const records = found.slice(0, page.limit);
    const last = records.at(-1);
    return { records, next: last !== undefined && found.length > page.limit ? auditCursorOf(last) : null };
  }

  /** Removes at most `max` that are past their time or too many; how many. */
  async purge(nowMs: number, max: number): Promise<number> {
    if (max <= 0) return 0;
    const before = `(${placeOf(Math.max(0, nowMs - keptForMs), "")}`;
    const old = await this.#client.command<string[]>("zrangebylex", [this.#key, "-", before, "LIMIT", 0, max]);
    if (old.length > 0) return this.#client.command<number>("zrem", [this.#key, ...old]);
    const surplus = (await this.#client.command<number>("zcard", [this.#key])) - recordsMax;
    if (surplus <= 0) return 0;
    return this.#client.command<number>("zremrangebyrank", [this.#key, 0, Math.min(surplus, max) - 1]);
  }
}

function parseRecord(member: string): AuditRecord {
  const { v: _form, ...record } = JSON.parse(member.slice(member.indexOf(" ") + 1)) as { v: number } & AuditRecord;
  return record;
}
