import type { UpstreamKind } from "../../domain/engine/upstream.js";

/** Settings of an upstream for one of LiteLLM's providers. */
export interface Provider {
  readonly kind: UpstreamKind;
  /** Base URL of an entry without api_base; null: an entry needs one. */
  readonly url: string | null;
  /** Variable that LiteLLM reads for an entry without api_key; null: it needs no key. */
  readonly keyVariable: string | null;
  /** Variable that LiteLLM reads for an entry without api_base. */
  readonly urlVariable?: string;
  /** Path that is added to an api_base without a path. */
  readonly path?: string;
}

const hosted = (url: string, keyVariable: string, kind: UpstreamKind = "generic"): Provider => ({
  kind,
  url,
  keyVariable,
});
const ollama: Provider = { kind: "ollama", url: "http://localhost:11434/v1", keyVariable: null, path: "/v1" };
const azure: Provider = { kind: "azure", url: null, keyVariable: "AZURE_API_KEY", urlVariable: "AZURE_API_BASE" };
const openai = hosted("https://api.openai.com/v1", "OPENAI_API_KEY", "openai");
const local: Provider = { kind: "generic", url: null, keyVariable: null };

/** Providers with OpenAI's API, by the prefix of `litellm_params.model`. */
const providers: Readonly<Record<string, Provider>> = {
  openai,
  "text-completion-openai": openai,
  custom_openai: local,
  openai_like: local,
  litellm_proxy: { ...local, urlVariable: "LITELLM_PROXY_API_BASE", keyVariable: "LITELLM_PROXY_API_KEY" },
  azure,
  azure_text: azure,
  hosted_vllm: { kind: "vllm", url: null, keyVariable: null, urlVariable: "HOSTED_VLLM_API_BASE", path: "/v1" },
  ollama,
  ollama_chat: ollama,
  llamafile: { kind: "llama-server", url: "http://127.0.0.1:8080/v1", keyVariable: null, path: "/v1" },
  lm_studio: { ...local, urlVariable: "LM_STUDIO_API_BASE" },
  xinference: { ...local, url: "http://127.0.0.1:9997/v1" },
  anthropic: { ...hosted("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "anthropic"), path: "/v1" },
  gemini: hosted("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
  groq: hosted("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
  mistral: hosted("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
  codestral: hosted("https://codestral.mistral.ai/v1", "CODESTRAL_API_KEY"),
  deepseek: hosted("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
  openrouter: hosted("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
  together_ai: hosted("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
  fireworks_ai: hosted("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
  perplexity: hosted("https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
  cerebras: hosted("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
  xai: hosted("https://api.x.ai/v1", "XAI_API_KEY"),
  deepinfra: hosted("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
  nvidia_nim: hosted("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
  sambanova: hosted("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
  anyscale: hosted("https://api.endpoints.anyscale.com/v1", "ANYSCALE_API_KEY"),
  meta_llama: hosted("https://api.llama.com/compat/v1", "LLAMA_API_KEY"),
  volcengine: hosted("https://ark.cn-beijing.volces.com/api/v3", "VOLCENGINE_API_KEY"),
  friendliai: hosted("https://api.friendli.ai/serverless/v1", "FRIENDLI_TOKEN"),
  github: hosted("https://models.inference.ai.azure.com", "GITHUB_API_KEY"),
  jina_ai: hosted("https://api.jina.ai/v1", "JINA_AI_API_KEY"),
  voyage: hosted("https://api.voyageai.com/v1", "VOYAGE_API_KEY"),
};

/** Providers of names without a prefix, as LiteLLM recognizes them. */
const ownersOfNames: readonly (readonly [RegExp, string])[] = [
  [/^(gpt-|chatgpt-|ft:gpt-|o\d|text-embedding-|davinci|babbage)/, "openai"],
  [/^claude-/, "anthropic"],
];

/** The provider of an entry and the name of its model there; `reason`: why there is none. */
type FoundProvider =
  | { readonly name: string; readonly provider: Provider; readonly model: string }
  | { readonly reason: string };

/** `custom`: custom_llm_provider of the entry. */
export function findProvider(model: string, custom: string | null, hasBase: boolean): FoundProvider {
  const prefix = model.slice(0, Math.max(0, model.indexOf("/")));
  const own = custom ?? (Object.hasOwn(providers, prefix) ? prefix : ownerOf(model, prefix, hasBase));
  if (own === null) {
    const name = prefix === "" ? `"${model}" names no provider` : `the provider ${prefix} has no API of OpenAI's form`;
    return { reason: `${name}; a proxy with OpenAI's API in front of it can be an upstream` };
  }
  const provider = Object.hasOwn(providers, own) ? providers[own] : undefined;
  if (provider === undefined) return { reason: `the provider ${own} has no API of OpenAI's form` };
  const bare = prefix === own ? model.slice(prefix.length + 1) : model;
  return { name: own, provider, model: bare.replace(/^(responses|o_series|gpt5_series)\//, "") };
}

function ownerOf(model: string, prefix: string, hasBase: boolean): string | null {
  if (prefix !== "") return null;
  return ownersOfNames.find(([form]) => form.test(model))?.[1] ?? (hasBase ? "openai" : null);
}
