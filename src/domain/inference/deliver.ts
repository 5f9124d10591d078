import { Outbox } from "../../lib/outbox.js";
import type { Call } from "../call.js";
import { errorOfEnd } from "../call-context.js";
import type { Answer, StreamAnswer } from "../core.js";
import type { Clock } from "../ports.js";
import type { Run } from "../run.js";
import { type ServiceError, toServiceError } from "../service-error.js";
import type { StreamAssembly, WholeAssembly } from "./assembly.js";
import type { EventSink, Generation } from "./generation.js";
import { settleFailure } from "./settle-failure.js";

/** Starts the engine's part of a request with a sink for its events. */
export type StartGeneration = (sink: EventSink) => Generation;

export interface StreamSettings {
  readonly clock: Clock;
  readonly streamBufferBytesMax: number;
  readonly stallMs: number;
}

/** What a chunk weighs beside its text: ids, names and frames. */
const chunkBytes = 256;

/**
 * Streams an answer. The engine pushes into a bounded outbox and waits when it is full; a reader that leaves it full
 * for `stallMs` ends the request, so that nobody holds a slot by not reading. The last item follows the settlement.
 */
export async function streamWhole<M>(
  settings: StreamSettings,
  call: Call,
  run: Run,
  assembly: StreamAssembly<M>,
  start: StartGeneration,
): Promise<StreamAnswer<M>> {
  const outbox = new Outbox<M>(settings.streamBufferBytesMax);
  const generation = start((choice, event) => {
    const textBytes = event.type === "text" ? event.text.length : 0;
    for (const piece of assembly.take(choice, event)) outbox.push(piece, chunkBytes + textBytes);
    return outbox.full ? roomOrStall(settings, call, outbox) : undefined;
  });
  const finished = finishStream(call, run, assembly, generation, outbox);
  try {
    return { head: await generation.committed, items: outbox };
  } catch {
    // The generation failed before anything was said: the caller is answered when that is settled, with the settled error.
    throw await finished;
  }
}

/** Ends the outbox when the request is settled; resolves to the error that it ended with, if any. Never rejects. */
async function finishStream<M>(
  call: Call,
  run: Run,
  assembly: StreamAssembly<M>,
  generation: Generation,
  outbox: Outbox<M>,
): Promise<ServiceError | null> {
  try {
    await endWith(call, run, generation);
    outbox.push(assembly.last(run.tally.total()), chunkBytes);
    outbox.close();
    return null;
  } catch (thrown) {
    const error = toServiceError(thrown);
    outbox.close(error);
    return error;
  }
}

/** Collects a whole answer. */
export async function collectWhole<M>(
  call: Call,
  run: Run,
  assembly: WholeAssembly<M>,
  start: StartGeneration,
): Promise<Answer<M>> {
  const generation = start((choice, event) => {
    assembly.take(choice, event);
    return undefined;
  });
  await endWith(call, run, generation);
  return { head: generation.head, body: assembly.build(run.tally.total()) };
}

/** Waits for the engine's end or the call's, whichever is first, and settles; rejects with what the caller is told. */
async function endWith(call: Call, run: Run, generation: Generation): Promise<void> {
  try {
    await endOfEither(generation, call.signal);
  } catch (thrown) {
    throw await settleFailure(call, run, thrown);
  }
  call.enter("delivering");
  await run.end("completed");
}

/** Does not wait for an engine that does not heed its signal. */
function endOfEither(generation: Generation, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(errorOfEnd(signal.reason));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    const settled = (settle: (reason?: unknown) => void) => (reason?: unknown) => {
      signal.removeEventListener("abort", onAbort);
      settle(reason);
    };
    generation.done.then(
      settled(() => resolve()),
      settled(reject),
    );
  });
}

async function roomOrStall<M>(settings: StreamSettings, call: Call, outbox: Outbox<M>): Promise<void> {
  const cancelTimer = settings.clock.after(settings.stallMs, () => call.abort("stalled"));
  const onAbort = (): void => outbox.close(errorOfEnd(call.signal.reason));
  call.signal.addEventListener("abort", onAbort, { once: true });
  await outbox.room();
  cancelTimer();
  call.signal.removeEventListener("abort", onAbort);
}
