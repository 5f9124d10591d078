/**
 * Bounds of histograms, in seconds. What is shown in two forms is counted once: our own bounds hold those of
 * OpenTelemetry's conventions, and the further ones that engines on CPUs need.
 */

/** 0.01 to 81.92, doubling: `gen_ai.server.request.duration`. */
const genAiDuration = Array.from({ length: 14 }, (_, i) => 2 ** i / 100);
/** `gen_ai.server.time_to_first_token`, and above. */
const firstToken = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
/** `gen_ai.server.time_per_output_token`, and above. */
const genAiTokenGap = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];

export const bounds = {
  duration: [0.001, 0.0025, 0.005, ...genAiDuration, 163.84, 327.68, 655.36],
  genAiDuration,
  firstToken,
  tokenGap: [0.001, 0.0025, 0.005, ...genAiTokenGap],
  genAiTokenGap,
  queue: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80],
  webhookAttempt: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  webhookLateness: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
  overhead: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
} as const;
