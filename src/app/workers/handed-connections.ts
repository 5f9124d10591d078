import type { ChildProcess } from "node:child_process";

/** A message of node:cluster: to a worker with a new connection, or back with whether the worker has taken it. */
interface ClusterMessage {
  readonly cmd?: unknown;
  readonly act?: unknown;
  readonly seq?: number;
  readonly ack?: number;
}

/** A connection as the binding of Node has it. */
interface Handle {
  close(): void;
}

/**
 * Gives the connections that a worker has not taken before its end to another one; without it, their clients would wait for an
 * answer that never comes: Node 20 keeps such a connection open, and the worker among those that get connections. A worker
 * answers before it reads from a connection, and its answers are all read when its channel is closed: of a connection without
 * an answer nothing was read.
 *
 * `hasOther`: whether another worker can take them; if not, they are closed.
 */
export function passOnUntaken(worker: ChildProcess, hasOther: () => boolean): void {
  const untaken = new Map<number, Handle>();
  const send = worker.send.bind(worker) as (...values: unknown[]) => boolean;
  worker.send = (...values: unknown[]): boolean => {
    const [message, handle] = values as [ClusterMessage, Handle];
    if (isOfCluster(message) && message.act === "newconn" && message.seq !== undefined)
      untaken.set(message.seq, handle);
    return send(...values);
  };
  worker.on("internalMessage", (message: ClusterMessage) => {
    if (isOfCluster(message) && message.ack !== undefined) untaken.delete(message.ack);
  });
  let isDisconnected = false;
  worker.once("disconnect", () => {
    isDisconnected = true;
  });
  worker.once("close", () => {
    // Node waits with this event for the answer about a connection; node:cluster removes the worker with it.
    if (!isDisconnected) worker.emit("disconnect");
    for (const [seq, handle] of untaken) {
      if (hasOther()) worker.emit("internalMessage", { cmd: "NODE_CLUSTER", ack: seq, accepted: false });
      else handle.close();
    }
    untaken.clear();
  });
}

function isOfCluster(message: unknown): message is ClusterMessage {
  return typeof message === "object" && message !== null && "cmd" in message && message.cmd === "NODE_CLUSTER";
}
