import { StateOpenError } from "../../domain/service/state.js";
import { backgroundTimeoutMs, type RedisClient } from "./connection/client.js";
import { documentKeys } from "./documents.js";

/** The mark that `uis state copy` writes into this Redis. */
interface CopyMark {
  /** Id of the copied store; null: nothing was copied. */
  readonly source: string | null;
  /** `in_use`: a service has started with the copy, which therefore has changes of its own. */
  readonly state: "copying" | "complete" | "in_use" | null;
}

export async function readCopyMark(client: RedisClient): Promise<CopyMark> {
  const args = [documentKeys.copy, "source", "state"];
  const [source = null, state = null] = await client.command<(string | null)[]>("hmget", args, backgroundTimeoutMs);
  return { source, state: state as CopyMark["state"] };
}

export async function writeCopyMark(client: RedisClient, { source, state }: CopyMark): Promise<void> {
  const args = [documentKeys.copy, "source", source ?? "", "state", state ?? ""];
  await client.command("hset", args, backgroundTimeoutMs);
}

/**
 * Marks this Redis as used by a service, so that no copy overwrites its changes. Rejects with StateOpenError while a copy
 * is incomplete.
 */
export async function takeCopyInUse(client: RedisClient): Promise<void> {
  const { source, state } = await readCopyMark(client);
  if (state === "copying") {
    throw new StateOpenError(
      "the copy of a state into this Redis is not complete",
      "run uis state copy again, which continues it, or empty this Redis to begin with an empty state",
    );
  }
  if (state === "complete") await writeCopyMark(client, { source, state: "in_use" });
}
