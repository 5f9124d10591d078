/** The events that an endpoint can get, with what each tells. */
export const eventTypes = {
  "request.completed": "a request was answered",
  "request.failed": "a request failed for good",
  "usage.threshold_reached": "usage has crossed a share of a threshold",
} as const;

export type EventType = keyof typeof eventTypes;

/** In the order of the documents. */
export const eventTypeNames = Object.keys(eventTypes) as EventType[];
