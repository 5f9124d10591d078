import { useCallback, useEffect, useState } from "preact/hooks";
import { prefix } from "../../lib/location.js";
import { Confirm } from "../../ui/action.js";
import { Icon } from "../../ui/icon.js";
import { Moment } from "../../ui/values.js";
import { type Conversation, parseConversations, titleOf, withConversation } from "./conversations.js";
import { isSideBySide } from "./settings-fields.js";

/** Contains the path prefix, because services at different paths of one host share the browser's storage. */
const storageKey = `uis-playground${prefix}`;

export interface StoredConversations {
  /** The newest first. */
  readonly conversations: readonly Conversation[];
  /** False if the browser refused to store the conversations, or the last one is too long to be stored. */
  readonly isKept: boolean;
  readonly save: (conversation: Conversation) => void;
  /** Removes one conversation, or all. */
  readonly remove: (id: string | "all") => void;
}

/** The conversations stored in this browser. A conversation of another tab appears when that tab saves it. */
export function useConversations(): StoredConversations {
  const [conversations, setConversations] = useState(readStored);
  const [isKept, setKept] = useState(true);
  useEffect(() => {
    const update = (event: StorageEvent): void => {
      if (event.key === storageKey || event.key === null) setConversations(readStored());
    };
    window.addEventListener("storage", update);
    return () => window.removeEventListener("storage", update);
  }, []);
  const save = useCallback((conversation: Conversation) => {
    const all = withConversation(readStored(), conversation);
    setConversations(all);
    setKept(write(all) && all.includes(conversation));
  }, []);
  const remove = useCallback((id: string) => {
    const rest = id === "all" ? [] : readStored().filter((conversation) => conversation.id !== id);
    setConversations(rest);
    setKept(write(rest));
  }, []);
  return { conversations, isKept, save, remove };
}

function readStored(): readonly Conversation[] {
  try {
    return parseConversations(window.localStorage.getItem(storageKey));
  } catch {
    // Browsers can forbid local storage. The next save reports it.
    return [];
  }
}

function write(conversations: readonly Conversation[]): boolean {
  try {
    if (conversations.length === 0) window.localStorage.removeItem(storageKey);
    else window.localStorage.setItem(storageKey, JSON.stringify(conversations));
    return true;
  } catch {
    return false;
  }
}

export interface ConversationListProps {
  readonly stored: StoredConversations;
  readonly currentId: string;
  readonly onOpen: (conversation: Conversation) => void;
  /** Called when the shown conversation was deleted. */
  readonly onDeleted: () => void;
}

/** Lists the stored conversations, with buttons that open and delete them. */
export function ConversationList({ stored, currentId, onOpen, onDeleted }: ConversationListProps) {
  const { conversations, isKept, remove } = stored;
  const [isClearing, setClearing] = useState(false);
  const [isWide] = useState(isSideBySide);
  const drop = (id: string): void => {
    remove(id);
    if (id === "all" || id === currentId) onDeleted();
  };
  if (conversations.length === 0 && isKept) return null;
  return (
    <details class="card conversations" open={isWide}>
      <summary>Conversations</summary>
      <div class="stack">
        {!isKept && (
          <small role="status">This browser cannot keep the conversation: it is too long, or storage is blocked.</small>
        )}
        <ul class="conversation-list">
          {conversations.map((conversation) => (
            <li key={conversation.id}>
              <button
                type="button"
                class="quiet"
                aria-current={conversation.id === currentId ? "true" : undefined}
                onClick={() => onOpen(conversation)}
              >
                <span>{titleOf(conversation)}</span>
                <small>
                  {conversation.model}, <Moment at={new Date(conversation.updatedAtMs).toISOString()} />
                </small>
              </button>
              <button
                type="button"
                class="quiet icon-button"
                aria-label={`Delete conversation “${titleOf(conversation)}”`}
                onClick={() => drop(conversation.id)}
              >
                <Icon name="trash" />
              </button>
            </li>
          ))}
        </ul>
        <div class="row spread">
          <small>Kept in this browser only.</small>
          <button type="button" class="small" disabled={conversations.length === 0} onClick={() => setClearing(true)}>
            Delete all
          </button>
        </div>
      </div>
      {isClearing && (
        <Confirm
          title="Delete all conversations?"
          verb="Delete all"
          run={async () => drop("all")}
          onClose={() => setClearing(false)}
        >
          <p>They are kept in this browser only, and cannot be restored.</p>
        </Confirm>
      )}
    </details>
  );
}
