/** Conversations of the playground, kept in the browser's local storage and nowhere else. */
import type { Message } from "./answers.js";
import { noSettings, type Settings } from "./requests.js";

export interface Conversation {
  readonly id: string;
  readonly model: string;
  readonly settings: Settings;
  readonly messages: readonly Message[];
  readonly updatedAtMs: number;
}

/** The most stored conversations, and the most characters of all together. Beyond either bound the oldest are dropped. */
export const conversationBounds = { count: 50, chars: 2_000_000 } as const;

/** Adds or replaces a conversation as the newest, and drops those beyond the bounds, which may include the new one. */
export function withConversation(
  conversations: readonly Conversation[],
  changed: Conversation,
): readonly Conversation[] {
  const { count, chars } = conversationBounds;
  const all = [changed, ...conversations.filter(({ id }) => id !== changed.id)].slice(0, count);
  let size = 0;
  return all.filter((conversation) => {
    size += JSON.stringify(conversation).length;
    return size <= chars;
  });
}

const titleCharsMax = 60;

/** The beginning of the user's first message. */
export function titleOf({ messages }: Pick<Conversation, "messages">): string {
  const text = (messages.find(({ role }) => role === "user")?.text ?? "").replace(/\s+/g, " ").trim();
  return text.length > titleCharsMax ? `${text.slice(0, titleCharsMax - 1)}…` : text;
}

/** Parses stored conversations; those of another format are left out. */
export function parseConversations(text: string | null): readonly Conversation[] {
  let stored: unknown;
  try {
    stored = JSON.parse(text ?? "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(stored)) return [];
  return stored.filter(isConversation).map((conversation) => ({
    ...conversation,
    // Stored conversations lack settings that later versions have added.
    settings: { ...noSettings, ...conversation.settings },
  }));
}

function isConversation(value: unknown): value is Conversation {
  const { id, model, settings, messages, updatedAtMs } = (value ?? {}) as Partial<Conversation>;
  return (
    typeof id === "string" &&
    typeof model === "string" &&
    typeof settings === "object" &&
    Object.values(settings ?? {}).every((setting) => typeof setting === "string") &&
    typeof updatedAtMs === "number" &&
    Array.isArray(messages) &&
    messages.every(isMessage)
  );
}

function isMessage(value: unknown): value is Message {
  const { role, text, reasoning, calls, callId } = (value ?? {}) as Partial<Message>;
  return (
    (role === "user" || role === "assistant" || role === "tool") &&
    [text, reasoning, callId].every((part) => typeof part === "string") &&
    Array.isArray(calls)
  );
}

/** A conversation without messages. The id only has to differ from the others of this browser. */
export function newConversation(model: string, settings: Settings): Conversation {
  const nowMs = Date.now();
  const id = `${nowMs.toString(36)}${Math.floor(Math.random() * 2 ** 32).toString(36)}`;
  return { id, model, settings, messages: [], updatedAtMs: nowMs };
}
