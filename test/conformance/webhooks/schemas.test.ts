import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { type ErrorCode, errors } from "../../../src/contract/errors.js";
import {
  type EventType,
  eventTypes,
  periodAt,
  requestCompleted,
  requestFailed,
  type Threshold,
  thresholdEvent,
  valuesOf,
} from "../../../src/domain/events/events.js";
import { sampleEvent } from "../../../src/domain/webhooks/test-event.js";
import { jsonExamples } from "./snippets.js";

interface Schema {
  readonly properties: Readonly<Record<string, Schema>>;
  readonly required: readonly string[];
}

interface Event {
  readonly type: EventType;
  readonly data: object;
}

const schemaOf = (type: EventType) =>
  JSON.parse(readFileSync(`docs/webhooks/${type}.schema.json`, "utf8")) as Schema & { properties: { data: Schema } };

// The format of times is defined here, because the validator has no built-in formats.
const ajv = new Ajv2020({
  strict: true,
  formats: { "date-time": /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/ },
});
const validators = new Map<EventType, ValidateFunction>(eventTypes.map((type) => [type, ajv.compile(schemaOf(type))]));

function faults(event: Event, type: EventType = event.type): unknown[] {
  const validate = validators.get(type);
  validate?.(event);
  return validate?.errors ?? [];
}

const atMs = Date.UTC(2026, 10, 21, 12);
const facts = { requestId: "req_1", model: "m", promptTokens: 3, completionTokens: 4, latencyMs: 5.4 };
const parse = ({ body }: { readonly body: string }) => JSON.parse(body) as Event;

function crossed(threshold: Partial<Threshold>): Event {
  const whole = { id: "thr_1", account: "a", apiKeyId: null, metric: "tokens", period: "month", ...threshold };
  const limits = { limit: 1_000n, percents: [80] };
  const [value] = valuesOf(limits) as [ReturnType<typeof valuesOf>[number]];
  const { prefix, suffix } = thresholdEvent(whole as Threshold, value, periodAt("month", atMs), atMs);
  return parse({ body: `${prefix}801${suffix}` });
}

const completed = parse(requestCompleted(facts, atMs));
const failures = [...(Object.keys(errors) as ErrorCode[]), "replica_lost" as const].map((code) =>
  parse(requestFailed(facts, { code, message: "It failed." }, atMs)),
);
const crossings = [crossed({}), crossed({ metric: "cost", apiKeyId: "key_1" }), crossed({ metric: "requests" })];

describe("the JSON Schemas of events", () => {
  it("match every event that the service creates (WH-8, WH-10)", () => {
    for (const event of [completed, ...failures, ...crossings]) expect(faults(event)).toEqual([]);
  });

  it("match test events, which are marked as such (WH-49)", () => {
    for (const type of eventTypes) {
      const sample = parse(sampleEvent(type, "default", "evt_1", atMs));
      expect(sample).toMatchObject({ type, test: true });
      expect(faults(sample)).toEqual([]);
      expect(faults({ ...sample, test: "yes" } as Event)).not.toEqual([]);
    }
  });

  it("contain every field and no other (WH-8, WH-10)", () => {
    for (const event of [completed, failures[0] as Event, crossings[0] as Event]) {
      const { properties, required } = schemaOf(event.type);
      expect(Object.keys(event).sort()).toEqual([...required].sort());
      const { data } = properties;
      expect(Object.keys(event.data).sort()).toEqual([...data.required].sort());
      expect(Object.keys(data.properties).sort()).toEqual([...data.required].sort());
    }
  });

  it("allow exactly the seven fields in the data of request.completed (WH-8)", () => {
    expect(Object.keys(schemaOf("request.completed").properties.data.properties)).toHaveLength(7);
    expect(faults({ ...completed, data: { ...completed.data, prompt: "Hello" } })).not.toEqual([]);
  });

  it("reject incomplete events and wrong types", () => {
    for (const event of [completed, failures[0] as Event, crossings[0] as Event]) {
      const { [Object.keys(event.data)[0] ?? ""]: _left, ...rest } = event.data as Record<string, unknown>;
      expect(faults({ ...event, data: rest })).not.toEqual([]);
      for (const type of eventTypes.filter((other) => other !== event.type))
        expect(faults(event, type)).not.toEqual([]);
    }
  });

  it("match the examples of docs/webhooks.md, one of each type", () => {
    const examples = jsonExamples() as readonly Event[];
    expect(examples.map(({ type }) => type)).toEqual(eventTypes);
    for (const example of examples) expect(faults(example)).toEqual([]);
  });
});
