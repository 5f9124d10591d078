/** Why a request body was not read to its end: `left` when the client closed, `aborted` when the call was ended. */
export type BodyFault = "too_large" | "too_slow" | "no_room" | "left" | "aborted";
