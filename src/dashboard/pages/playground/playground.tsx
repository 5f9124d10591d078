import { useState } from "preact/hooks";
import type { ModelJson } from "../../../../gen/unified/catalog/v1/model_pb.js";
import { call } from "../../lib/api.js";
import { go, useLocation } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { Field, Select, textOf } from "../../ui/form.js";
import { Chat } from "./chat.js";
import { Completion } from "./completion.js";
import { Embeddings } from "./embeddings.js";
import { noSettings, type Settings } from "./requests.js";
import "./playground.css";

type Mode = "chat" | "completions" | "embeddings";

const modeTitles: Readonly<Record<Mode, string>> = {
  chat: "Chat completions",
  completions: "Completions",
  embeddings: "Embeddings",
};
const modes: readonly Mode[] = ["chat", "completions", "embeddings"];

/** Sends requests to models interactively. */
export function Playground() {
  const { value, error, reload } = useData(
    (signal) => call("unified.catalog.v1.CatalogService/ListModels", {}, signal),
    [],
  );
  if (value === null) return error === null ? <Loading /> : <Problem error={error} onRetry={reload} />;
  const { models = [] } = value;
  if (models.length > 0) return <Bench models={models} />;
  return (
    <Empty>
      No models yet. Pull one with <code>uis models pull SOURCE</code>.
    </Empty>
  );
}

/** Model and endpoint are kept in the URL, so that other pages can link here. */
function Bench({ models }: { readonly models: readonly ModelJson[] }) {
  const { query } = useLocation();
  const [settings, setSettings] = useState(noSettings);
  const model = models.find(({ id }) => id === query.get("model"));
  const mode = modes.find((name) => name === query.get("mode")) ?? firstMode(model ?? models[0]);
  const able = models.filter(({ capabilities = [] }) => capabilities.includes(mode));
  const { id = "" } = able.find((other) => other === model) ?? able[0] ?? {};
  const titles = Object.fromEntries(able.map(({ id = "" }) => [id, id]));
  return (
    <div class="playground">
      <div class="row choices">
        <Select
          label="Endpoint"
          titles={modeTitles}
          value={mode}
          onChoose={(chosen) => go("playground", { model: id, mode: chosen }, true)}
        />
        <Select
          label="Model"
          titles={titles}
          value={id}
          onChoose={(chosen) => go("playground", { model: chosen, mode }, true)}
        />
      </div>
      {id === "" ? (
        <Empty>No model supports this endpoint.</Empty>
      ) : (
        <Trial mode={mode} model={id} settings={settings} />
      )}
      {mode !== "embeddings" && <SettingsFields settings={settings} onChange={setSettings} isChat={mode === "chat"} />}
    </div>
  );
}

function Trial({ mode, model, settings }: { readonly mode: Mode } & Parameters<typeof Chat>[0]) {
  if (mode === "chat") return <Chat model={model} settings={settings} />;
  if (mode === "completions") return <Completion model={model} settings={settings} />;
  return <Embeddings model={model} />;
}

function firstMode(model: ModelJson | undefined): Mode {
  return modes.find((mode) => model?.capabilities?.includes(mode)) ?? "chat";
}

interface SettingsFieldsProps {
  readonly settings: Settings;
  readonly onChange: (settings: Settings) => void;
  /** Only chat has a system prompt and tools. */
  readonly isChat: boolean;
}

function SettingsFields({ settings, onChange, isChat }: SettingsFieldsProps) {
  const field = (name: keyof Settings) => ({
    value: settings[name],
    onType: (text: string) => onChange({ ...settings, [name]: text }),
  });
  return (
    <details class="card settings" open>
      <summary>Settings</summary>
      <div class="stack">
        {isChat && <Lines label="System prompt" rows={3} {...field("system")} />}
        <div class="numbers">
          <Decimal label="Temperature" hint="0 to 2" {...field("temperature")} />
          <Decimal label="Top P" hint="0 to 1" {...field("topP")} />
        </div>
        <Decimal label="Max tokens" hint="Leave empty for the rest of the context" {...field("maxTokens")} />
        <Lines label="Stop sequences" hint="One per line, up to 4" rows={2} {...field("stop")} />
        {isChat && <Lines label="Tools" hint="JSON array in OpenAI's format" rows={5} {...field("tools")} />}
      </div>
    </details>
  );
}

interface TypedProps {
  readonly label: string;
  readonly hint?: string;
  readonly value: string;
  readonly onType: (text: string) => void;
}

function Decimal({ label, hint, value, onType }: TypedProps) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(ids) => (
        <input
          {...ids}
          type="text"
          inputMode="decimal"
          autocomplete="off"
          value={value}
          onInput={(event) => onType(textOf(event))}
        />
      )}
    </Field>
  );
}

function Lines({ label, hint, rows, value, onType }: TypedProps & { readonly rows: number }) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(ids) => (
        <textarea {...ids} rows={rows} spellcheck={false} value={value} onInput={(event) => onType(textOf(event))} />
      )}
    </Field>
  );
}
