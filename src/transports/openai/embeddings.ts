import { once } from "node:events";
import { create } from "@bufbuild/protobuf";
import {
  type Embedding,
  type EmbeddingList,
  type EmbeddingParams,
  EmbeddingParamsSchema,
} from "../../../gen/unified/inference/v1/embedding_pb.js";
import { errorOfEnd } from "../../domain/call/call-context.js";
import { Turns } from "../../lib/clock.js";
import { JsonText } from "../../lib/json-string.js";
import type { Call, Exchange } from "../http/call.js";
import { type JsonObject, unknownValue } from "../http/json-object.js";
import { readTextOrTokens } from "./completions.js";

type EncodingFormat = "float" | "base64";

/** Reads the body of `POST /v1/embeddings`. Throws ServiceError. */
export function readEmbedding(body: JsonObject): { params: EmbeddingParams; encoding: EncodingFormat } {
  const model = body.requiredString("model");
  const { texts, tokens } = readTextOrTokens(body, "input");
  const params = create(EmbeddingParamsSchema, {
    model,
    input: texts,
    inputTokens: tokens,
    dimensions: body.int32("dimensions"),
    user: body.string("user"),
  });
  return { params, encoding: readEncoding(body) };
}

function readEncoding(body: JsonObject): EncodingFormat {
  const encoding = body.string("encoding_format") ?? "float";
  if (encoding === "float" || encoding === "base64") return encoding;
  return unknownValue("encoding_format", encoding, ["float", "base64"]);
}

/** Fields of the body that are known. */
export const embeddingFields: ReadonlySet<string> = new Set([
  "model",
  "input",
  "dimensions",
  "user",
  "encoding_format",
]);

/**
 * Numbers that are written in one step, which takes about a millisecond for vectors of any length. In base64 a number costs
 * a fraction of its cost in decimals.
 */
const numbersPerSlice = { float: 8_192, base64: 131_072 };
const bytesPerNumber = 4;
const comma = ",".charCodeAt(0);

/**
 * Writes the vectors in slices, with other work of the event loop between them (EMB-11): 2,048 vectors are tens of megabytes
 * of text, which would delay all other requests. The core has checked that all numbers are finite (EMB-5).
 */
export async function writeEmbeddings(
  call: Call,
  exchange: Exchange,
  list: EmbeddingList,
  encoding: EncodingFormat,
): Promise<void> {
  const rowToJson = encoding === "base64" ? base64Row : floatRow;
  const numbersPerRow = (list.data[0]?.vector.byteLength ?? 0) / bytesPerNumber;
  const rowsPerSlice = Math.max(1, Math.floor(numbersPerSlice[encoding] / Math.max(1, numbersPerRow)));
  const slice = (from: number): string =>
    list.data
      .slice(from, from + rowsPerSlice)
      .map(rowToJson)
      .join(",");
  if (list.data.length <= rowsPerSlice) {
    exchange.json(200, withTail(new JsonText().add(head + slice(0)), list));
    return;
  }
  const { signal } = call.ctx;
  call.watch();
  exchange.res.writeHead(200, exchange.jsonHeaders());
  const turns = new Turns();
  let text = head;
  for (let at = 0; at < list.data.length; at += rowsPerSlice) {
    if (at > 0) {
      if (!exchange.res.write(`${text},`)) await once(exchange.res, "drain", { signal });
      await turns.next();
      if (signal.aborted) throw errorOfEnd(signal.reason);
      text = "";
    }
    text += slice(at);
  }
  exchange.res.end(withTail(new JsonText().add(text), list).text);
}

const head = '{"object":"list","data":[';

function withTail(json: JsonText, { model, usage }: EmbeddingList): JsonText {
  const [prompt, total] = [usage?.promptTokens ?? 0, usage?.totalTokens ?? 0];
  return json.add('],"model":').addString(model).add(`,"usage":{"prompt_tokens":${prompt},"total_tokens":${total}}}`);
}

function base64Row({ index, vector }: Embedding): string {
  const text = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
  return `{"object":"embedding","index":${index},"embedding":"${text}"}`;
}

function floatRow({ index, vector }: Embedding): string {
  const numbers = new DataView(vector.buffer, vector.byteOffset, vector.byteLength);
  const text = Buffer.allocUnsafe((vector.byteLength / bytesPerNumber) * (float32CharsMax + 1));
  let end = 0;
  for (let at = 0; at < numbers.byteLength; at += bytesPerNumber) {
    if (at > 0) text[end++] = comma;
    end = writeFloat32(text, end, numbers.getFloat32(at, true));
  }
  return `{"object":"embedding","index":${index},"embedding":[${text.toString("latin1", 0, end)}]}`;
}

/** Bytes that `writeFloat32` needs at most. JavaScript prints numbers in up to 24 characters, a sign and an exponent included. */
export const float32CharsMax = 24;

/** A float32 represents every decimal of 6 digits, and 9 digits always suffice to identify a float32. */
const digitsMin = 6;
const digitsMax = 9;

/** Powers of ten up to 10^22 are exact, so a division by one rounds once. */
const powersOfTen: readonly number[] = Array.from({ length: 23 }, (_, exponent) => 10 ** exponent);

const [zero, point, minus] = [..."0.-"].map((char) => char.charCodeAt(0)) as [number, number, number];

/**
 * Writes the shortest decimal that parses to the same float32, in ASCII, and returns the offset behind it. A float32
 * printed as a double would be twice as long without more precision. `value` must be a finite
 * float32. The numbers of embeddings, from 0.000001 to 1, are written digit by digit: twenty times as fast as text.
 */
export function writeFloat32(bytes: Buffer, offset: number, value: number): number {
  let at = offset;
  const magnitude = Math.abs(value);
  if (value < 0) bytes[at++] = minus;
  if (!(magnitude >= 1e-6 && magnitude < 1)) return at + bytes.write(shortestText(magnitude), at, "latin1");
  // Decimal places for the fewest digits, which begin behind the zeros that follow the point.
  let places = digitsMin;
  while (magnitude * power(places - digitsMin + 1) < 1) places += 1;
  const placesMax = places + digitsMax - digitsMin;
  let whole = Math.round(magnitude * power(places));
  while (places < placesMax && Math.fround(whole / power(places)) !== magnitude) {
    places += 1;
    whole = Math.round(magnitude * power(places));
  }
  // At most 10^9, so below 2^31. An int32 is divided by multiplication, in half the time of a double.
  let left = whole | 0;
  let rest = (left / 10) | 0;
  for (; rest * 10 === left; rest = (left / 10) | 0) {
    left = rest;
    places -= 1;
  }
  bytes[at] = zero;
  bytes[at + 1] = point;
  const end = at + 2 + places;
  for (let place = end - 1; place > at + 1; place -= 1) {
    rest = (left / 10) | 0;
    bytes[place] = zero + left - rest * 10;
    left = rest;
  }
  return end;
}

function power(exponent: number): number {
  return powersOfTen[exponent] ?? Number.NaN;
}

function shortestText(magnitude: number): string {
  for (let digits = 1; digits < digitsMax; digits += 1) {
    const rounded = Number(magnitude.toPrecision(digits));
    if (Math.fround(rounded) === magnitude) return String(rounded);
  }
  return String(Number(magnitude.toPrecision(digitsMax)));
}
