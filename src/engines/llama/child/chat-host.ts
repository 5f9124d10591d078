import { EngineError, type GenEvent } from "../../../domain/engine/engine.js";
import { createRandomIds } from "../../../lib/crypto.js";
import { ChatTemplate } from "../chat/chat-template.js";
import { fieldOf, type OutputPlan, planOutput } from "../chat/output-plan.js";
import { controlTextsOf } from "../chat/prompt-pieces.js";
import { abortedError, type ChildGenerate, type ChildInput, type ChildModel } from "../protocol/protocol.js";
import { LruCache } from "../structure/lru-cache.js";
import { Generation, type GenerationDeps } from "./generate.js";
import type { NativeModel } from "./native.js";
import type { NativeGrammar, NativeSequence } from "./native-model.js";
import { type PromptDeps, SlicedTokenizer, toPrompt } from "./prompt.js";
import { scoredTokensMax } from "./prompt-logprobs.js";
import { SlotPool } from "./slots.js";
import { findPace, PrefillPace, type StepBatcher } from "./steps.js";
import { createGrammarBans, TokenSpelling } from "./token-spelling.js";

/** Maximum tokens of one native call, summed over all requests in it. */
const batchTokens = 512;

/** Runs chat and completion calls, as many at the same time as there are slots. */
export class ChatHost {
  readonly template: ChatTemplate;
  readonly contextLength: number;
  readonly longestTokenBytes: number;
  readonly #deps: GenerationDeps;
  readonly #prompts: PromptDeps;
  readonly #slots: SlotPool;
  readonly #grammars = new LruCache<NativeGrammar>();
  readonly #ids = createRandomIds();

  static async open(model: NativeModel, spec: ChildModel, batcher: StepBatcher): Promise<ChatHost> {
    const contextLength = Math.min(spec.contextLength, model.trainContextLength);
    const { threads, slots } = spec;
    const sequences = await model.openSequences({ contextLength, batchTokens, threads, sequences: slots });
    const pace = new PrefillPace(batchTokens);
    const [first] = sequences;
    if (first !== undefined) await findPace(pace, first, contextLength);
    const scoringPace = new PrefillPace(scoredTokensMax, 1);
    return new ChatHost(model, sequences, { contextLength, pace, scoringPace, batcher });
  }

  private constructor(
    model: NativeModel,
    sequences: readonly NativeSequence[],
    deps: Pick<GenerationDeps, "contextLength" | "pace" | "scoringPace" | "batcher">,
  ) {
    const { vocabulary } = model;
    const spelling = new TokenSpelling(vocabulary, (token) => model.detokenize([token]));
    const newBans = createGrammarBans(vocabulary, spelling, (token) => model.isEnd(token));
    let endTokens: ReadonlySet<number> | null = null;
    const ends = (): ReadonlySet<number> => {
      endTokens ??= new Set([...vocabulary.tokens.keys()].filter((token) => model.isEnd(token)));
      return endTokens;
    };
    const tokenizer = new SlicedTokenizer(model, controlTextsOf(vocabulary.controlTexts));
    const { contextLength, batcher } = deps;
    const { longestBytes: longestTokenBytes } = spelling;
    const template = new ChatTemplate(model.chatTemplate, {
      bos: vocabulary.begin?.text ?? "",
      eos: vocabulary.endText,
    });
    this.template = template;
    this.contextLength = contextLength;
    this.longestTokenBytes = longestTokenBytes;
    this.#slots = new SlotPool(sequences, batcher);
    this.#deps = { ...deps, model, spelling, newBans, endTokens: ends };
    this.#prompts = { vocabulary, template, tokenizer, contextLength, longestTokenBytes };
  }

  get slotsBusy(): number {
    return this.#slots.busy;
  }

  /** Number of tokens of a prompt. Throws the EngineErrors that `generate` throws for this prompt. */
  async count(input: ChildInput, format: ChildGenerate["format"], signal: AbortSignal): Promise<number> {
    const { tokens } = await toPrompt(this.#prompts, input, this.#plan(input, format), () => throwIfAborted(signal));
    return tokens.length;
  }

  /** Throws EngineError or SlotLost. */
  async generate(request: ChildGenerate, emit: (event: GenEvent) => void, signal: AbortSignal): Promise<void> {
    const plan = this.#plan(request.input, request.format);
    const prompt = await toPrompt(this.#prompts, request.input, plan, () => throwIfAborted(signal));
    const grammar = plan.grammar === null ? null : this.#grammar(plan.grammar, request);
    const generation = new Generation(this.#deps, { request, prompt, plan, grammar });
    // A call that evaluates its whole prompt takes the slot whose tokens are the least useful to others.
    const slot = this.#slots.take(generation.scoresPrompt ? [] : prompt.tokens, request.cacheKey);
    if (slot === null) throw new EngineError("overloaded", "all slots are busy", { retryable: true });
    try {
      await generation.run(slot, emit, signal);
    } catch (cause) {
      if (cause instanceof EngineError) throw cause;
      await slot.clear();
      const usage = generation.produced;
      throw new EngineError("internal", "the native engine failed", { retryable: true, usage, cause });
    } finally {
      slot.busy = false;
    }
  }

  #plan(input: ChildInput, format: ChildGenerate["format"]): OutputPlan {
    return planOutput(input, format, this.template, () => this.#ids.text("call_"));
  }

  #grammar(gbnf: string, request: ChildGenerate): NativeGrammar {
    try {
      return this.#grammars.get(gbnf, () => this.#deps.model.parseGrammar(gbnf));
    } catch (cause) {
      const param = request.format === undefined ? "tools" : fieldOf(request.format);
      const message = `The constraint in '${param}' cannot be enforced: it allows too many alternatives in one place.`;
      throw new EngineError("bad_schema", message, { param, cause });
    }
  }
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw abortedError(signal);
}
