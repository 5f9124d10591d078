/** How models of the Hermes and Qwen families write a call: JSON on a line of its own between two markers. */
export const hermesOpening = "<tool_call>";
export const hermesClosing = "</tool_call>";

/** Calls of one answer at most. */
export const callsMax = 16;
