/** One Lua script of this driver. */
export interface Script {
  /** Name of its file in `scripts/`, without the ending. */
  readonly name: string;
  readonly source: string;
  /** Lowercase hex SHA-1 of `source`: how the server knows it. */
  readonly sha1: string;
}

/** The connection as the stores and the ledger see it: the same for one server, Sentinel and Cluster. */
export interface RedisClient {
  /**
   * Runs a script (EVALSHA, EVAL when the server does not know it) on the node of its keys. Rejects with ServiceError
   * `storage_unavailable` when there is no answer within `timeoutMs`; the script may have run nevertheless.
   */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number | Buffer)[],
    timeoutMs?: number,
  ): Promise<unknown>;
  /** One command, on the node of the key that it names. Rejects as `run` does. */
  command<T>(name: string, args: readonly (string | number | Buffer)[], timeoutMs?: number): Promise<T>;
  /**
   * Calls `send` at once. What it asks for leaves in one write where one server takes it: waking a server costs more than
   * most of what it is asked for.
   */
  together(send: () => void): void;
  /** Begins every key: `uis:`. */
  readonly prefix: string;
}
