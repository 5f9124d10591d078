import { MessageChannel } from "node:worker_threads";

/** A port whose other end is closed: what is transferred to it leaves this thread and is freed at once. */
const nowhere = (() => {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
})();
/** A smaller buffer is not worth a transfer, which takes some microseconds. */
const freedBytesMin = 4_096;

/**
 * Frees the memory of a buffer that nobody reads any more, without waiting for a garbage collection: memory outside the heap
 * makes V8 collect the whole heap for every 64 MB, so large bodies would slow all other requests down. Does nothing if other
 * buffers share its memory. Afterwards its length is 0.
 */
export function freeBuffer({ buffer, byteLength }: Buffer): void {
  if (byteLength >= freedBytesMin && byteLength === buffer.byteLength)
    nowhere.postMessage(null, [buffer as ArrayBuffer]);
}
