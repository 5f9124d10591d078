/** The caller's span, by the `traceparent` header of W3C Trace Context. */
export interface ParentSpan {
  /** 32 hex digits, not all 0. */
  readonly traceId: string;
  /** 16 hex digits, not all 0. */
  readonly spanId: string;
  /** Bit 0: the caller records its trace. */
  readonly flags: number;
}

/** Later versions may have more fields at the end; `ff` is no version. */
const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Null when there is none or it is not well formed: then the trace begins here. */
export function parseTraceparent(header: string | undefined): ParentSpan | null {
  if (header === undefined) return null;
  const [, version, traceId, spanId, flags, more] = form.exec(header) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  if (version === "00" && more !== undefined) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
