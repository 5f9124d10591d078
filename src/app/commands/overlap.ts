import { type Duration, durationFromMs } from "@bufbuild/protobuf/wkt";
import { UsageError } from "../cli-io.js";
import { parseDuration } from "../config/durations.js";

/** `--overlap` as a field of a request; none when it was not given. Throws UsageError. */
export function overlapOf({ overlap }: { readonly overlap?: string }): { overlap?: Duration } {
  if (overlap === undefined) return {};
  const overlapMs = parseDuration(overlap);
  if (overlapMs !== null) return { overlap: durationFromMs(overlapMs) };
  throw new UsageError(`--overlap: "${overlap}" is no length of time such as 24h, 30m or 0s`);
}
