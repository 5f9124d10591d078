/**
 * Why a request body was not read to its end. `connection_full`, `caller_full`: the connection or the caller holds its
 * share of the budget for bodies already; `left`: the client closed; `aborted`: the call was ended.
 */
export type BodyFault = "too_large" | "too_slow" | "no_room" | "connection_full" | "caller_full" | "left" | "aborted";
