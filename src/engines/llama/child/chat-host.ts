import { EngineError, type GenEvent } from "../../../domain/engine/engine.js";
import { createRandomIds } from "../../../lib/clock-and-ids.js";
import { ChatTemplate } from "../chat/chat-template.js";
import { controlTextsOf } from "../chat/control-marks.js";
import { type OutputPlan, planOutput } from "../chat/output-plan.js";
import type { ChildGenerate, ChildInput, ChildModel } from "../protocol/protocol.js";
import { abortedError } from "../protocol/protocol.js";
import { LruCache } from "../structure/lru-cache.js";
import { Generation, type GenerationDeps } from "./generate.js";
import { GrammarBans } from "./grammar-bans.js";
import type { NativeGrammar, NativeModel } from "./native-model.js";
import { findPace, PrefillPace } from "./prefill.js";
import { type PromptDeps, toPrompt } from "./prompt.js";
import { SlotPool } from "./slots.js";
import type { StepBatcher } from "./step-batcher.js";
import { SlicedTokenizer } from "./text-slices.js";
import { TokenSpelling } from "./token-spelling.js";

/** Tokens of one native call at most, of all calls together. */
const batchTokens = 512;

/** Answers prompts, as many at once as there are slots. */
export class ChatHost {
  readonly template: ChatTemplate;
  readonly #deps: GenerationDeps;
  readonly #prompts: PromptDeps;
  readonly #slots: SlotPool;
  readonly #grammars = new LruCache<NativeGrammar>();
  readonly #nextCallId: () => string;

  static async open(model: NativeModel, spec: ChildModel, turns: StepBatcher): Promise<ChatHost> {
    const contextLength = Math.min(spec.contextLength, model.trainContextLength);
    const sequences = await model.openSequences({
      contextLength,
      batchTokens,
      threads: spec.threads,
      sequences: spec.slots,
    });
    const pace = new PrefillPace(batchTokens);
    const [first] = sequences;
    if (first !== undefined) await findPace(pace, first, contextLength);
    return new ChatHost(model, { contextLength, pace, turns }, new SlotPool(sequences, turns));
  }

  private constructor(
    model: NativeModel,
    how: Pick<GenerationDeps, "contextLength" | "pace" | "turns">,
    slots: SlotPool,
  ) {
    const { begin, endText } = model.vocabulary;
    this.template = new ChatTemplate(model.chatTemplate, { bos: begin?.text ?? "", eos: endText });
    this.#slots = slots;
    const spelling = new TokenSpelling(model.vocabulary, (token) => model.detokenize([token]));
    this.#deps = {
      model,
      ...how,
      spelling,
      bans: new GrammarBans(model.vocabulary, spelling, (token) => model.isEnd(token)),
    };
    const { contextLength } = how;
    this.#prompts = {
      model,
      template: this.template,
      tokenizer: new SlicedTokenizer(model, controlTextsOf(model.vocabulary.controlTexts)),
      limits: { contextLength, longestTokenBytes: spelling.longestBytes },
    };
    const ids = createRandomIds();
    this.#nextCallId = () => ids.text("call_");
  }

  get contextLength(): number {
    return this.#deps.contextLength;
  }

  get longestTokenBytes(): number {
    return this.#prompts.limits.longestTokenBytes;
  }

  get slotsBusy(): number {
    return this.#slots.busy;
  }

  /** Exact tokens of a prompt. Throws EngineError, as `generate` does about it. */
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
    const slot = this.#slots.take(prompt.tokens, request.cacheKey);
    if (slot === null) throw new EngineError("overloaded", "all slots are busy", { retryable: true });
    try {
      await generation.run(slot, emit, signal);
    } catch (error) {
      if (error instanceof EngineError) throw error;
      await slot.forget();
      throw new EngineError("internal", "the native engine failed", {
        retryable: true,
        usage: generation.produced,
        cause: error,
      });
    } finally {
      slot.free();
    }
  }

  #plan(input: ChildInput, format: ChildGenerate["format"]): OutputPlan {
    return planOutput(input, format, this.template, this.#nextCallId);
  }

  #grammar(gbnf: string, request: ChildGenerate): NativeGrammar {
    try {
      return this.#grammars.get(gbnf, () => this.#deps.model.parseGrammar(gbnf));
    } catch (cause) {
      const param = request.format === undefined ? "tools" : "response_format";
      throw new EngineError("bad_schema", `The schema in '${param}' cannot be enforced: it allows too much at once.`, {
        param,
        cause,
      });
    }
  }
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw abortedError(signal);
}
