import { useState } from "preact/hooks";
import type { ModelJson } from "../../../gen/unified/catalog/v1/model_pb.js";
import { call } from "../api.js";
import { go, usePlace } from "../location.js";
import { Empty, Loading, Problem } from "../ui/feedback.js";
import { Select } from "../ui/select.js";
import { useData } from "../use-data.js";
import { Chat } from "./playground/chat.js";
import { Completion } from "./playground/completion.js";
import { Embeddings } from "./playground/embeddings.js";
import { noSettings } from "./playground/settings.js";
import { SettingsFields } from "./playground/settings-fields.js";
import "./playground/playground.css";

type Mode = "chat" | "completions" | "embeddings";

const modeTitles: Readonly<Record<Mode, string>> = {
  chat: "Chat",
  completions: "Completion",
  embeddings: "Embeddings",
};
const modes: readonly Mode[] = ["chat", "completions", "embeddings"];

/** Tries models by hand. */
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
      There is no model to try. <code>uis models pull SOURCE</code> fetches one.
    </Empty>
  );
}

/** Model and mode stand in the address, so that other pages can lead here. */
function Bench({ models }: { readonly models: readonly ModelJson[] }) {
  const { query } = usePlace();
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
          label="What"
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
        <Empty>No model of the catalog does this.</Empty>
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
