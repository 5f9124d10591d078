import type { DirectProcess } from "./direct-process.js";
import type { EngineService } from "./engine-service.js";
import { median } from "./http-request.js";
import type { RoundResult, StreamRound } from "./stream-round.js";

/** Tokens of prompt and answer together, per slot. */
export const contextLength = 2_048;
/** Slots of the model `many`; the model `one` has one. */
export const slots = 8;
const promptTokens = 32;
/** A prompt of this length is one piece on every machine, so both sides do the same work. */
const onePieceTokens = 8;
const longPromptTokens = 1_000;
const nextTurnTokens = 20;
const firstTokenRepeats = 40;
const mebibyte = 2 ** 20;

/** The two sides of a comparison: a model file in the service, as the models `one` and `many`, and in the binding alone. */
export interface Side {
  readonly service: EngineService;
  readonly direct: DirectProcess;
  /** Tokens that are never drawn: those that end an answer, and in the generated model partial characters. */
  readonly muted: readonly number[];
}

let drawn = 0;

/** Token ids of plain letters and words, different ones each time. */
export function prompt(length: number): readonly number[] {
  drawn += 1;
  return Array.from({ length }, (_, place) => 256 + ((drawn * 7_919 + place * 104_729 + place * place) % 200));
}

export function round(streams: number, answerTokens: number, muted: readonly number[]): StreamRound {
  const tasks = Array.from({ length: streams }, () => ({ prompt: prompt(promptTokens), seed: drawn }));
  return { tasks, tokens: answerTokens, muted, cutsPrompts: false };
}

export const rounded = (number: number, digits = 1): number => Number(number.toFixed(digits));
const perSecond = ({ tokens: made, ms }: RoundResult): number => (made * 1_000) / ms;
const perCpuSecond = ({ tokens: made, cpuMs }: RoundResult): number => (made * 1_000) / cpuMs;

export interface Rounds {
  readonly streams: number;
  /** Tokens of each answer. */
  readonly tokens: number;
  readonly repeats: number;
}

export interface Throughput {
  readonly streams: number;
  readonly direct_tokens_per_second: number;
  readonly service_tokens_per_second: number;
  readonly service_over_direct: number;
  /**
   * Service over binding, in tokens per second of processor time including the protocols: the share of the speed that
   * remains if one core does everything.
   */
  readonly per_cpu_second_over_direct: number;
  readonly server_loop_delay_p99_ms: number;
  readonly server_loop_delay_max_ms: number;
}

/** Runs the same rounds on both sides in turn, so that other load of the machine affects both. */
export async function throughput(
  { service, direct, muted }: Side,
  { streams, tokens, repeats }: Rounds,
): Promise<Throughput> {
  const pairs: { readonly ours: RoundResult; readonly bare: RoundResult }[] = [];
  await service.loopDelay();
  for (let i = 0; i < repeats; i += 1) {
    const asked = round(streams, tokens, muted);
    pairs.push({ bare: await direct.run(asked), ours: await service.run("many", asked) });
  }
  const delay = await service.loopDelay();
  return {
    streams,
    direct_tokens_per_second: rounded(median(pairs.map(({ bare }) => perSecond(bare)))),
    service_tokens_per_second: rounded(median(pairs.map(({ ours }) => perSecond(ours)))),
    service_over_direct: rounded(median(pairs.map(({ ours, bare }) => perSecond(ours) / perSecond(bare))), 3),
    per_cpu_second_over_direct: rounded(
      median(pairs.map(({ ours, bare }) => perCpuSecond(ours) / perCpuSecond(bare))),
      3,
    ),
    server_loop_delay_p99_ms: rounded(delay.p99Ms),
    server_loop_delay_max_ms: rounded(delay.maxMs),
  };
}

export interface FirstToken {
  readonly prompt_tokens: number;
  /** The binding alone, with the prompt in pieces of the same size as the service's. */
  readonly direct_p50_ms: number;
  readonly service_p50_ms: number;
  /** Median of the service's added time for the same prompt. */
  readonly added_p50_ms: number;
  /** The binding alone, with the whole prompt in one piece. */
  readonly direct_uncut_p50_ms: number;
}

/** Measures the time to the first token, one stream at a time, for prompts of one piece and of one or more pieces. */
export async function firstTokens(side: Side): Promise<readonly FirstToken[]> {
  return [await firstToken(side, onePieceTokens), await firstToken(side, promptTokens)];
}

async function firstToken({ service, direct, muted }: Side, length: number): Promise<FirstToken> {
  const bare: number[] = [];
  const uncut: number[] = [];
  const ours: number[] = [];
  for (let i = 0; i < firstTokenRepeats; i += 1) {
    const asked = { tasks: [{ prompt: prompt(length), seed: drawn }], tokens: 4, muted, cutsPrompts: true };
    bare.push(...(await direct.run(asked)).firstMs);
    ours.push(...(await service.run("many", asked)).firstMs);
    uncut.push(...(await direct.run({ ...asked, cutsPrompts: false })).firstMs);
  }
  return {
    prompt_tokens: length,
    direct_p50_ms: rounded(median(bare), 2),
    service_p50_ms: rounded(median(ours), 2),
    added_p50_ms: rounded(median(ours.map((ms, i) => ms - (bare[i] ?? 0))), 2),
    direct_uncut_p50_ms: rounded(median(uncut), 2),
  };
}

/** Measures the time to the first token of a long prompt, and of a second prompt that continues it. */
export async function prefixReuse({ service, muted }: Side, repeats: number): Promise<object> {
  const asked = { tasks: [], tokens: 4, muted, cutsPrompts: false };
  const first: number[] = [];
  const second: number[] = [];
  let cachedTokens = 0;
  for (let i = 0; i < repeats; i += 1) {
    const turn = prompt(longPromptTokens);
    first.push((await service.stream("many", { prompt: turn, seed: 1 }, asked)).firstMs);
    const next = await service.stream("many", { prompt: [...turn, ...prompt(nextTurnTokens)], seed: 1 }, asked);
    second.push(next.firstMs);
    cachedTokens = next.cachedTokens;
  }
  return {
    prompt_tokens: longPromptTokens,
    first_turn_p50_ms: rounded(median(first)),
    second_turn_p50_ms: rounded(median(second)),
    cached_tokens: cachedTokens,
  };
}

/** Computes the memory of one slot from two processes that have the same model and work, and different numbers of slots. */
export async function slotMemory({ service, muted }: Side): Promise<object> {
  for (const model of ["one", "many"]) await service.run(model, round(1, 32, muted));
  const [one = 0, many = 0] = service.engineRssBytes();
  return {
    context_length: contextLength,
    one_slot_mib: rounded(one / mebibyte),
    [`${slots}_slots_mib`]: rounded(many / mebibyte),
    each_slot_mib: rounded((many - one) / (slots - 1) / mebibyte, 2),
  };
}
