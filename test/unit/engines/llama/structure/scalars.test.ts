import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Matcher } from "../../../../support/gbnf/match.js";
import { accepted, grammarOf, refusal } from "./grammar-of.js";

describe("grammar of strings", () => {
  it("counts characters as validators do: an escape or a surrogate pair counts as one (RF-3)", () => {
    const two = { type: "string", minLength: 2, maxLength: 2 };
    const right = ['"ab"', '"é🙂"', '"\\n\\""', '"\\u00e9b"', '"\\ud83d\\ude00b"', '"\\\\\\/"'];
    expect(accepted(two, right)).toEqual(right);
    expect(accepted(two, ['"a"', '"abc"', '"🙂"', '"\\n"', '"\\ud83d\\ude00"', '"a\\ud83d"', '"ab', "ab"])).toEqual([]);
  });

  it("does not allow characters that JSON forbids inside a string (RF-3)", () => {
    expect(accepted({ type: "string" }, ['"\n"', '"\u0000"', '"\\x"', '"\\u12"', '"a"b"', '"\\"'])).toEqual([]);
  });

  it.each([
    [0, 1],
    [0, 64],
    [3, 65],
    [63, 200],
    [128, 128],
    [100, 4_000],
  ])("allows exactly the lengths from %i to %i", (minLength, maxLength) => {
    const matcher = new Matcher(grammarOf({ type: "string", minLength, maxLength }));
    const lengths = [minLength - 1, minLength, minLength + 1, 63, 64, 65, 127, 128, 129, maxLength - 1, maxLength];
    for (const length of [...lengths, maxLength + 1].filter((each) => each >= 0)) {
      const { matches, pathsMax } = matcher.match(JSON.stringify("x".repeat(length)));
      expect([length, matches]).toEqual([length, length >= minLength && length <= maxLength]);
      expect(pathsMax).toBeLessThanOrEqual(8);
    }
  });

  it.each([
    ["date", ["2026-02-28", "2026-12-31"], ["2026-02-30", "2026-13-01", "2026-04-31", "26-01-01"]],
    ["time", ["00:00:00Z", "23:59:59.123+02:00"], ["24:00:00Z", "12:00", "12:00:00"]],
    ["date-time", ["2026-01-31T10:20:30Z"], ["2026-01-31 10:20:30Z", "2026-01-31"]],
    ["uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000"]],
    ["ipv4", ["0.0.0.0", "255.1.20.199"], ["256.0.0.1", "1.2.3", "01.2.3.4"]],
    ["email", ["a.b@example.com"], ["a@b", "@example.com", "a b@example.com"]],
  ])("allows only texts of the format %s", (format, right, wrong) => {
    const quoted = (texts: readonly string[]) => texts.map((text) => JSON.stringify(text));
    expect(accepted({ type: "string", format }, [...quoted(right), ...quoted(wrong)])).toEqual(quoted(right));
  });
});

describe("grammar of numbers", () => {
  it("allows exactly the integers of a range", () => {
    fc.assert(
      fc.property(fc.integer({ min: -3_000, max: 3_000 }), fc.nat(2_500), (minimum, size) => {
        const maximum = minimum + size;
        const matcher = new Matcher(grammarOf({ type: "integer", minimum, maximum }));
        const probes = [
          minimum - 1,
          minimum,
          minimum + 1,
          0,
          9,
          10,
          -9,
          -10,
          99,
          100,
          maximum - 1,
          maximum,
          maximum + 1,
        ];
        for (const value of probes) {
          const isInside = value >= minimum && value <= maximum;
          expect([value, matcher.match(String(value)).matches]).toEqual([value, isInside]);
        }
      }),
    );
  });

  it("enforces exclusive and fractional bounds of integers", () => {
    const texts = ["1", "2", "3", "4", "5"];
    expect(accepted({ type: "integer", exclusiveMinimum: 1, exclusiveMaximum: 4 }, texts)).toEqual(["2", "3"]);
    expect(accepted({ type: "integer", minimum: 1.5, maximum: 3.5 }, texts)).toEqual(["2", "3"]);
    expect(accepted({ allOf: [{ type: "integer", minimum: 2 }, { maximum: 3 }] }, texts)).toEqual(["2", "3"]);
  });

  it("accepts the bounds that schema generators write for any safe integer", () => {
    const safe = { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
    expect(accepted(safe, ["0", "-17", "999999999999999"])).toEqual(["0", "-17", "999999999999999"]);
  });

  it("enforces bounds of numbers that are not integers", () => {
    const schema = { type: "number", minimum: -1.25, maximum: 20 };
    const right = ["-1.25", "-1.24", "-0.50", "0.00", "3.14159", "19.99", "20.00"];
    expect(accepted(schema, [...right, "-1.26", "-1.251", "20.001", "20.01", "21.00", "-2.00"])).toEqual(right);
    const exclusive = { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1 };
    expect(accepted(exclusive, ["0.00", "0.01", "0.99", "0.991", "1.00"])).toEqual(["0.01", "0.99"]);
  });

  it("rounds bounds inwards that are finer than a number's digits", () => {
    expect(
      accepted({ type: "number", minimum: 0.1 + 0.2, maximum: 1 }, ["0.3000000000000", "0.3000000000001"]),
    ).toEqual(["0.3000000000001"]);
  });

  it("allows no leading zeros, and limits the digits of numbers without bounds", () => {
    const right = ["0", "-12", "1.5", "1e5", "2.5E-12"];
    const wrong = ["01", ".5", "5.", "+1", "--1", "1e", "1e123", "1".repeat(16), `0.${"1".repeat(16)}`];
    expect(accepted({ type: "number" }, [...right, ...wrong])).toEqual(right);
    expect(accepted({ type: "integer" }, ["0", "-7", "1.0", "1e3", "00"])).toEqual(["0", "-7"]);
  });
});

describe("grammar of listed values", () => {
  it("allows exactly the values of enum and const", () => {
    const values = ["red", "re", "", 1, 12, -1.5, true, null, { a: [1, "x"] }, 'quo"te\n', "日本"];
    const texts = [
      '"red"',
      '"re"',
      '""',
      "1",
      "12",
      "-1.5",
      "true",
      "null",
      '{"a": [1, "x"]}',
      '"quo\\"te\\n"',
      '"日本"',
    ];
    expect(accepted({ enum: values }, [...texts, '"r"', "2", "false", "{}"])).toEqual(texts);
    expect(accepted({ const: "only" }, ['"only"', '"onl"'])).toEqual(['"only"']);
  });

  it("leaves out values that other keywords do not allow", () => {
    const texts = ['"a"', '"bcd"', "5", "50"];
    expect(
      accepted({ type: ["string", "integer"], enum: ["a", "bcd", 5, 50], maxLength: 2, maximum: 9 }, texts),
    ).toEqual(['"a"', "5"]);
    expect(accepted({ allOf: [{ enum: ["a", 5] }, { enum: [5, 50] }] }, texts)).toEqual(["5"]);
  });

  it("needs few paths even for many values", () => {
    const schema = { enum: Array.from({ length: 1_500 }, (_, index) => `value ${index}`) };
    expect(new Matcher(grammarOf(schema)).match('"value 1499"')).toEqual({ matches: true, pathsMax: 11 });
  });
});

describe("grammar of types", () => {
  it("accepts one type or several", () => {
    const texts = ["null", "true", "false", "1", "1.5", '"a"', "[]", "{}"];
    expect(accepted({ type: "null" }, texts)).toEqual(["null"]);
    expect(accepted({ type: "boolean" }, texts)).toEqual(["true", "false"]);
    expect(accepted({ type: ["string", "null"] }, texts)).toEqual(["null", '"a"']);
    expect(accepted({ type: ["integer", "number"] }, texts)).toEqual(["1", "1.5"]);
    expect(accepted({}, texts)).toEqual(texts);
    expect(accepted(true, texts)).toEqual(texts);
  });

  it("reads a schema without a type by its keywords", () => {
    const texts = ["1", '"abc"', "[]", "{}", '{"a": 1}'];
    expect(accepted({ properties: { a: { type: "integer" } } }, texts)).toEqual(["{}", '{"a": 1}']);
    expect(accepted({ minLength: 2 }, texts)).toEqual(['"abc"']);
    expect(accepted({ items: true }, texts)).toEqual(["[]"]);
    expect(accepted({ minimum: 0 }, texts)).toEqual(["1"]);
  });

  it("refuses schemas that no finite value satisfies (RF-4)", () => {
    for (const schema of [
      false,
      { enum: [] },
      { type: "integer", minimum: 2, maximum: 1 },
      { not: {}, allOf: [false] },
    ]) {
      expect(refusal(schema, "lenient").message).toContain("no finite value");
    }
  });
});
