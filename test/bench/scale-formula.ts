/** Figures of one machine, in the units of docs/capacity.md. */
export interface Terms {
  /** Processor time of a worker for one request, without streamed tokens, in µs. */
  readonly requestUs: number;
  /** Processor time of a worker for one streamed token, in µs. */
  readonly tokenUs: number;
  /** Processor time of Redis for one request, in µs. */
  readonly redisUs: number;
  /** Bytes between workers and Redis for one request, both directions. */
  readonly redisBytes: number;
  /** Bytes that a settled request leaves in Redis for two hours. */
  readonly markerBytes: number;
  /** Bytes that a settled request adds to the append-only file. */
  readonly fileBytes: number;
  /** Bytes of an API key, of a key that is in use, and of a usage row. */
  readonly keyBytes: number;
  readonly activeBytes: number;
  readonly usageRowBytes: number;
  /** Memory of a worker without load, and of an open stream. */
  readonly workerBytes: number;
  readonly streamBytes: number;
}

export interface Load {
  readonly perSecond: number;
  /** Streamed tokens of an answer. */
  readonly tokens: number;
  /** Mean duration of an answer. */
  readonly seconds: number;
  /** API keys, each in use. */
  readonly keys: number;
  /** Rows of usage: keys x models x (hours of 90 days + days of 2 years) in which they are used. */
  readonly usageRows: number;
}

export interface Capacity {
  readonly workers: number;
  readonly replicas: number;
  /** Cores of Redis at its target utilization; a server uses one. */
  readonly redisCores: number;
  /** Masters of a cluster; 1: one server, with Sentinel; null: more load than a cluster of 16 shards can carry. */
  readonly redisMasters: number | null;
  readonly redisMemoryBytes: number;
  readonly redisFileBytesPerSecond: number;
  readonly redisBitsPerSecond: number;
  readonly memoryBytes: number;
}

/** Target utilization: above it, waits grow quickly, and the service fails when one replica fails. */
export const workerUse = 0.6;
export const redisUse = 0.5;
export const workersOfReplica = 4;
/** Number of shards that accounts are distributed over. A shard is on one master. */
const shards = 16;
/**
 * Numbers of masters in a cluster, each with the most shards that one master gets from `redis-cli --cluster create`. Other
 * numbers are no better than the next lower one here.
 */
export const mostShards: ReadonlyMap<number, number> = new Map([
  [1, 16],
  [3, 6],
  [4, 4],
  [8, 3],
  [12, 2],
]);
const markerSeconds = 2 * 3_600;

/** Computes the capacity for a load, rounded up. Replicas include one that may fail, and are at least two. */
export function capacityFor(terms: Terms, load: Load): Capacity {
  const { perSecond, tokens, seconds, keys, usageRows } = load;
  const workerCores = (perSecond * (terms.requestUs + tokens * terms.tokenUs)) / 1_000_000;
  const workers = Math.max(1, Math.ceil(workerCores / workerUse));
  const redisCores = (perSecond * terms.redisUs) / 1_000_000 / redisUse;
  const masters = [...mostShards].find(([, most]) => (redisCores * most) / shards <= 1)?.[0] ?? null;
  return {
    workers,
    replicas: Math.max(2, Math.ceil(workers / workersOfReplica) + 1),
    redisCores,
    redisMasters: masters,
    redisMemoryBytes:
      perSecond * markerSeconds * terms.markerBytes +
      keys * (terms.keyBytes + terms.activeBytes) +
      usageRows * terms.usageRowBytes,
    redisFileBytesPerSecond: perSecond * terms.fileBytes,
    redisBitsPerSecond: 8 * perSecond * terms.redisBytes,
    memoryBytes: workers * terms.workerBytes + perSecond * seconds * terms.streamBytes,
  };
}
