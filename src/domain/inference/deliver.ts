import type { ServiceLimits } from "../../contract/limits.js";
import { BoundedQueue } from "../../lib/bounded-collections.js";
import type { Call } from "../call/call.js";
import type { Answer, StreamAnswer } from "../call/call-context.js";
import { endReasonOf, errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { type ServiceError, toServiceError } from "../call/service-error.js";
import { serviceErrorOf } from "../engine/engine-error.js";
import type { StreamAssembly, WholeAssembly } from "./answer-parts.js";
import type { EventSink, Generation, GenerationReader } from "./generation.js";
import type { Run } from "./run.js";

/** Creates the generation for a reader, without starting it. */
export type ToGeneration = (reader: GenerationReader) => Generation;

export interface StreamDeps {
  readonly clock: Clock;
  readonly limits: Pick<ServiceLimits, "streamBufferBytesMax" | "stallMs">;
}

/** Estimated bytes of a chunk beside its text: ids, names and frames. */
const chunkBytes = 256;

/**
 * Streams an answer through a bounded queue. A full queue pauses the engine; a reader that leaves it full for `stallMs`
 * ends the request and so frees its slot. The last item follows the settlement.
 */
export function streamWhole<M>(
  deps: StreamDeps,
  call: Call,
  run: Run,
  assembly: StreamAssembly<M>,
  toGeneration: ToGeneration,
): Promise<StreamAnswer<M>> {
  const queue = new BoundedQueue<M>(deps.limits.streamBufferBytesMax);
  const sink: EventSink = (choice, event) => {
    const textBytes = event.type === "text" ? event.text.length : 0;
    for (const piece of assembly.take(choice, event)) queue.push(piece, chunkBytes + textBytes);
    return queue.full ? roomOrStall(deps, call, queue) : undefined;
  };
  return new Promise((resolve, reject) => {
    const generation = toGeneration({ sink, commit: (head) => resolve({ head, items: queue }) });
    // A failure before the commit rejects after its settlement.
    void finishStream(call, run, assembly, generation, queue).then((error) => {
      if (error !== null) reject(error);
    });
  });
}

/** Closes the queue once the request is settled; resolves to its error, if any. Never rejects. */
async function finishStream<M>(
  call: Call,
  run: Run,
  assembly: StreamAssembly<M>,
  generation: Generation,
  queue: BoundedQueue<M>,
): Promise<ServiceError | null> {
  try {
    return await endWith(call, run, generation, () => {
      queue.push(assembly.last(run.tally.total()), chunkBytes);
      queue.close();
      return null;
    });
  } catch (thrown) {
    const error = toServiceError(thrown);
    queue.close(error);
    return error;
  }
}

/** Collects a whole answer. */
export function collectWhole<M>(
  call: Call,
  run: Run,
  assembly: WholeAssembly<M>,
  toGeneration: ToGeneration,
): Promise<Answer<M>> {
  const generation = toGeneration({
    sink(choice, event) {
      assembly.take(choice, event);
      return undefined;
    },
    commit: null,
  });
  return endWith(call, run, generation, () => ({
    head: generation.head,
    body: assembly.build(run.tally.total()),
  }));
}

/**
 * Runs the generation to its end or the call's and settles. Resolves to the result of `finish`; rejects with the error
 * for the caller.
 */
async function endWith<R>(call: Call, run: Run, generation: Generation, finish: () => R): Promise<R> {
  try {
    await generation.run();
  } catch (thrown) {
    throw await settleFailure(call, run, thrown);
  }
  call.stage = "delivering";
  const settling = run.end("completed");
  if (settling !== undefined) await settling;
  return finish();
}

async function roomOrStall<M>(deps: StreamDeps, call: Call, queue: BoundedQueue<M>): Promise<void> {
  const cancelTimer = deps.clock.after(deps.limits.stallMs, () => call.abort("stalled"));
  const onAbort = (): void => queue.close(errorOfEnd(call.stop.reason));
  call.stop.addEventListener("abort", onAbort);
  await queue.room();
  cancelTimer();
  call.stop.removeEventListener("abort", onAbort);
}

/** Settles a failed run and returns the error for the caller. A call ended from outside is settled with that reason. */
export async function settleFailure(call: Call, run: Run, thrown: unknown): Promise<ServiceError> {
  const { stop } = call;
  const error = stop.aborted ? errorOfEnd(stop.reason) : serviceErrorOf(thrown);
  if (error.code === "internal_error") call.log.error({ err: error.cause }, "request failed");
  await run.end(stop.aborted ? endReasonOf(stop) : "failed", error);
  return error;
}
