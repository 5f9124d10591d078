import { useRef, useState } from "preact/hooks";
import type { ModelJson } from "../../../../gen/unified/catalog/v1/model_pb.js";
import { call } from "../../lib/api.js";
import { go, useLocation } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { fieldErrorOf, Select } from "../../ui/form.js";
import type { Message } from "./answers.js";
import { Chat } from "./chat.js";
import { Completion } from "./completion.js";
import { ConversationList, useConversations } from "./conversation-list.js";
import { type Conversation, newConversation } from "./conversations.js";
import { Embeddings } from "./embeddings.js";
import { noSettings } from "./requests.js";
import { SettingsFields } from "./settings-fields.js";
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

/** Model, endpoint and conversation are kept in the URL, for links of other pages and reloads. */
function Bench({ models }: { readonly models: readonly ModelJson[] }) {
  const { query } = useLocation();
  const stored = useConversations();
  const [opened, setOpened] = useState(() => startOf(query, stored.conversations));
  const [settings, setSettings] = useState(opened.settings);
  const model = models.find(({ id }) => id === query.get("model"));
  const mode = modes.find((name) => name === query.get("mode")) ?? firstMode(model ?? models[0]);
  const able = models.filter(({ capabilities = [] }) => capabilities.includes(mode));
  const { id = "" } = able.find((other) => other === model) ?? able[0] ?? {};
  const titles = Object.fromEntries(able.map(({ id = "" }) => [id, id]));

  const [problem, setProblem] = useState<Error | null>(null);
  const openedId = useRef(opened.id);

  const open = (conversation: Conversation): void => {
    openedId.current = conversation.id;
    setOpened(conversation);
    setSettings(conversation.settings);
    show({ model: conversation.model, mode: "chat", conversation: conversation.id });
  };
  const startNew = (): void => open(newConversation(id, settings));
  const save = (messages: readonly Message[]): void => {
    const saved = { ...opened, model: id, settings, messages, updatedAtMs: Date.now() };
    stored.save(saved);
    // Opening another conversation ends a running answer, which is then saved and not shown.
    if (openedId.current !== saved.id) return;
    setOpened(saved);
    show({ conversation: saved.id });
  };
  return (
    <div class="playground">
      <div class="row choices">
        <Select
          label="Endpoint"
          titles={modeTitles}
          value={mode}
          onChoose={(chosen) => show({ model: id, mode: chosen })}
        />
        <Select label="Model" titles={titles} value={id} onChoose={(chosen) => show({ model: chosen })} />
      </div>
      {id === "" ? (
        <Empty>No model supports this endpoint.</Empty>
      ) : (
        <>
          {mode === "chat" && (
            <Chat
              key={opened.id}
              model={id}
              settings={settings}
              conversation={opened}
              onSave={save}
              onNew={startNew}
              onProblem={setProblem}
            />
          )}
          {mode === "completions" && <Completion model={id} settings={settings} onProblem={setProblem} />}
          {mode === "embeddings" && <Embeddings model={id} />}
        </>
      )}
      {mode !== "embeddings" && (
        <div class="stack playground-side">
          <SettingsFields
            settings={settings}
            onChange={setSettings}
            isChat={mode === "chat"}
            error={fieldErrorOf(problem)}
          />
          {mode === "chat" && (
            <ConversationList stored={stored} currentId={opened.id} onOpen={open} onDeleted={startNew} />
          )}
        </div>
      )}
    </div>
  );
}

/** Changes parameters of the URL; the others stay. */
function show(change: Readonly<Record<string, string>>): void {
  go("playground", { ...Object.fromEntries(new URLSearchParams(window.location.search)), ...change }, true);
}

/** The stored conversation that the URL names, or a new one. */
function startOf(query: URLSearchParams, conversations: readonly Conversation[]): Conversation {
  const id = query.get("conversation");
  return conversations.find((conversation) => conversation.id === id) ?? newConversation("", noSettings);
}

function firstMode(model: ModelJson | undefined): Mode {
  return modes.find((mode) => model?.capabilities?.includes(mode)) ?? "chat";
}
