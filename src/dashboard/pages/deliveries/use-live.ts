import { useState } from "preact/hooks";
import { type Data, useData } from "../../use-data.js";

/** While something is on its way, and while nothing is. */
const busyMs = 2_000;
const calmMs = 10_000;

/** Reads again and again: soon while what was read says that something will happen, seldom otherwise. */
export function useLive<T>(
  read: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  isBusy: (value: T) => boolean,
): Data<T> {
  const [busy, setBusy] = useState(true);
  const readAndJudge = async (signal: AbortSignal): Promise<T> => {
    const value = await read(signal);
    setBusy(isBusy(value));
    return value;
  };
  return useData(readAndJudge, deps, busy ? busyMs : calmMs);
}
