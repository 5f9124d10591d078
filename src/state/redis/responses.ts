import type { ResponseStore, StoredResponse } from "../../domain/responses/response-store.js";
import { loadScript, type RedisClient } from "./connection/client.js";
import { keySpace, shardCount } from "./connection/key-space.js";

const putScript = loadScript("put-response");
const conversationScript = loadScript("read-conversation");
const purgeScript = loadScript("purge-responses");

/**
 * Timeout of calls. It is longer than for admissions, because a record has up to 1.4 MB and no other work of the request
 * waits for it.
 */
const timeoutMs = 2_000;
/** The fields of a record before its content: two numbers and an id. */
const headCharsMax = 512;

/**
 * Stored responses, on the shards of their accounts. Records are plain text, so that scripts can follow conversations
 * without parsing JSON.
 */
export function createRedisResponseStore(client: RedisClient): ResponseStore {
  return {
    async put(response, keepMax) {
      const { account, id, createdAtMs } = response;
      const shard = keySpace.shardOf(account);
      const keys = [shard.responses(account), shard.responseTimes(account), shard.responseAccounts];
      await client.run(putScript, keys, [account, id, createdAtMs, responseText(response), keepMax], timeoutMs);
    },
    async get(account, id) {
      const key = keySpace.shardOf(account).responses(account);
      const record = await client.command<string | null>("hget", [key, id], timeoutMs);
      return record === null ? null : parseRecord(account, id, record);
    },
    async conversation(account, id, { responsesMax, charsMax }) {
      const key = keySpace.shardOf(account).responses(account);
      const args = [id, responsesMax, charsMax];
      const found = (await client.run(conversationScript, [key], args, timeoutMs)) as string[];
      const responses: StoredResponse[] = [];
      for (let at = 0; at + 1 < found.length; at += 2) {
        responses.push(parseRecord(account, found[at] ?? "", found[at + 1] ?? ""));
      }
      return responses;
    },
    async delete(account, id) {
      const shard = keySpace.shardOf(account);
      const removed = await client.command<number>("hdel", [shard.responses(account), id], timeoutMs);
      // If the process stops before this call, the entry of the time counts as a response until it is purged.
      await client.command("zrem", [shard.responseTimes(account), id], timeoutMs);
      return removed === 1;
    },
    async purge(beforeMs, max) {
      let purged = 0;
      for (let index = 0; index < shardCount && purged < max; index += 1) {
        const keys = [keySpace.shard(index).responseAccounts];
        purged += (await client.run(purgeScript, keys, [beforeMs, max - purged], timeoutMs)) as number;
      }
      return purged;
    },
  };
}

export function responseText({ createdAtMs, items, previousId, sealed }: StoredResponse): string {
  return `${createdAtMs} ${items} ${previousId ?? ""} ${sealed}`;
}

function parseRecord(account: string, id: string, record: string): StoredResponse {
  const [createdAtMs, items, previousId = ""] = record.slice(0, headCharsMax).split(" ", 3);
  const head = `${createdAtMs} ${items} ${previousId} `;
  return {
    id,
    account,
    createdAtMs: Number(createdAtMs),
    previousId: previousId === "" ? null : previousId,
    items: Number(items),
    sealed: record.slice(head.length),
  };
}
