/** Whether requests and answers cost time in proportion to their size. */
import { compare, type GrowthOptions } from "./growth-costs.js";
import { chatRequest, type Line, scriptedModel, startService, withServices } from "./growth-service.js";

interface Growing {
  readonly what: string;
  readonly unit: string;
  /** The smallest of three sizes; the others are twice and four times as large. */
  readonly size: number;
  request(size: number): Buffer;
}

const fact = "A queue in front of a model keeps one busy customer from slowing down all others. ";
/** Name of the model whose answers have this many tokens. */
const chunkModel = (tokens: number): string => `chunks-${tokens}`;

const growing: readonly Growing[] = [
  {
    what: "body",
    unit: "KB",
    size: 250,
    request: (size) =>
      chatRequest({ messages: [{ role: "user", content: fact.repeat((size * 1_000) / fact.length) }] }),
  },
  {
    what: "messages",
    unit: "",
    size: 250,
    request(size) {
      const messages = Array.from({ length: size }, (_, number) => ({
        role: number % 2 === 0 ? "user" : "assistant",
        content: fact,
      }));
      return chatRequest({ messages: [...messages, { role: "user", content: "And now?" }] });
    },
  },
  {
    what: "tools",
    unit: "",
    size: 32,
    request: (size) =>
      chatRequest({ tools: Array.from({ length: size }, (_, number) => toolOf(number)), tool_choice: "auto" }),
  },
  {
    what: "chunks of a stream",
    unit: "",
    size: 500,
    request: (size) => chatRequest({ model: chunkModel(size), stream: true, max_tokens: size }),
  },
];

/** A small tool, because the schemas of 128 tools together may have at most 65,536 characters. */
function toolOf(number: number): object {
  const properties = Object.fromEntries(
    Array.from({ length: 6 }, (_, i) => [`field_${i}`, { type: "string", maxLength: 100 + i }]),
  );
  const parameters = { type: "object", properties, required: ["field_0"], additionalProperties: false };
  return { type: "function", function: { name: `tool_${number}`, description: fact, parameters } };
}

/** Allowed distance of the middle size's time from the straight line between the others. */
const distanceMax = 0.2;

export async function sizeCosts(options: GrowthOptions): Promise<Line[]> {
  const { state, folder } = options;
  const chunks = growing.find(({ unit, what }) => unit === "" && what.startsWith("chunks"))?.size ?? 0;
  const models = [1, 2, 4].map((times) => {
    const tokens = chunks * times;
    return scriptedModel(chunkModel(tokens), { text: "one two three four five", tokens });
  });
  const settings = { models: [scriptedModel("chat"), ...models] };
  return await withServices([startService({ name: "sizes", state, folder, settings })], async ([service]) => {
    if (service === undefined) throw new Error("there is no service");
    const lines: Line[] = [];
    for (const { what, unit, size, request } of growing) {
      const sizes = [size, 2 * size, 4 * size];
      const sides = sizes.map((each) => {
        const prepared = request(each);
        return { service, next: () => prepared, connections: 4 };
      });
      const { figure } = await compare(sides, options);
      const [small = 0, middle = 0, large = 0] = sizes.map((_, side) => figure("cpuUs", side));
      const distance = middle / (small + (large - small) / 3) - 1;
      const shownMs = [small, middle, large].map((us) => (us / 1_000).toFixed(2)).join(" / ");
      lines.push({
        what: `CPU of a request with ${sizes.map((each) => each.toLocaleString("en")).join(" / ")} ${unit} ${what}`.replace(
          "  ",
          " ",
        ),
        state,
        measured: `${shownMs} ms; the middle is ${Math.round(100 * distance)} % off the straight line`,
        aim: `linear: at most ${100 * distanceMax} %`,
        isHeld: Math.abs(distance) <= distanceMax,
      });
    }
    return lines;
  });
}
