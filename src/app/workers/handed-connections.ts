import type { ChildProcess } from "node:child_process";

/** A message of node:cluster: it hands a connection to a worker, or is the answer whether the worker accepted it. */
interface ClusterMessage {
  readonly cmd?: unknown;
  readonly act?: unknown;
  readonly seq?: number;
  readonly ack?: number;
}

/** A connection in the form that Node uses internally. */
interface Handle {
  close(): void;
}

/**
 * Hands the connections that a worker did not accept before it ended to another worker. Otherwise their clients would wait
 * forever: Node 20 keeps such connections open, and continues to hand connections to the ended worker. Nothing was read from a
 * connection without an answer: a worker answers before it reads, and all its answers are received before its channel closes.
 *
 * `hasOther`: whether another worker is ready; if not, the connections are closed.
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
    // With this event node:cluster removes the worker. Node delays it until each connection is answered, which cannot happen.
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
