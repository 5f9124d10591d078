import { useState } from "preact/hooks";
import { Copy } from "../../ui/code.js";
import { textOf } from "../../ui/form.js";
import { Icon } from "../../ui/icon.js";
import { isEmpty, isSilent, type Message } from "./answers.js";
import { Composer, TruncatedNote } from "./composer.js";
import { MarkdownView } from "./markdown-view.js";

const roleTitles = { user: "User", assistant: "Assistant", tool: "Tool result" } as const;

export interface ConversationViewProps {
  readonly messages: readonly Message[];
  /** Whether the last message is still growing. */
  readonly isRunning: boolean;
  /** Replaces this message of the user by an edited one and sends it; later messages are dropped. */
  readonly onEdit: (index: number, text: string) => void;
  /** Requests another answer in place of this one; later messages are dropped. */
  readonly onRegenerate: (index: number) => void;
}

/** The messages. Screen readers announce an answer when it is complete. */
export function ConversationView({ messages, isRunning, onEdit, onRegenerate }: ConversationViewProps) {
  const [edited, setEdited] = useState<number | null>(null);
  const last = messages.length - 1;
  return (
    <ol class="messages" aria-label="Conversation" aria-live="polite" aria-busy={isRunning}>
      {messages.map((message, index) => (
        <li key={index} class={`message message-${message.role}`}>
          <strong>{roleTitles[message.role]}</strong>
          {edited === index && !isRunning ? (
            <EditForm
              text={message.text}
              onClose={() => setEdited(null)}
              onSend={(text) => {
                setEdited(null);
                onEdit(index, text);
              }}
            />
          ) : (
            <>
              <Content message={message} isGrowing={isRunning && index === last} />
              {!isRunning && (
                <div class="message-actions">
                  {message.text !== "" && <Copy text={message.text} />}
                  {message.role === "user" && (
                    <button type="button" class="small" onClick={() => setEdited(index)}>
                      <Icon name="edit" />
                      Edit
                    </button>
                  )}
                  {message.role === "assistant" && (
                    <button type="button" class="small" onClick={() => onRegenerate(index)}>
                      <Icon name="refresh" />
                      Regenerate
                    </button>
                  )}
                </div>
              )}
            </>
          )}
        </li>
      ))}
    </ol>
  );
}

function Content({ message, isGrowing }: { readonly message: Message; readonly isGrowing: boolean }) {
  const { role, text, reasoning, calls, isTruncated } = message;
  return (
    <>
      {reasoning !== "" && (
        <details open={isSilent(message)}>
          <summary>Reasoning</summary>
          <div class="said faint">{reasoning}</div>
        </details>
      )}
      {text !== "" && (role === "assistant" ? <MarkdownView text={text} /> : <div class="said">{text}</div>)}
      {calls.map(({ id, name, argumentsJson }) => (
        <div key={id}>
          Tool call: <code>{name}</code> <code>{argumentsJson}</code>
        </div>
      ))}
      {isGrowing
        ? isSilent(message) && <div class="faint">…</div>
        : isEmpty(message) && <div class="faint">Empty response</div>}
      {isTruncated && <TruncatedNote />}
    </>
  );
}

interface EditFormProps {
  readonly text: string;
  readonly onSend: (text: string) => void;
  readonly onClose: () => void;
}

function EditForm({ text, onSend, onClose }: EditFormProps) {
  const [draft, setDraft] = useState(text);
  return (
    <Composer
      sendsOnEnter
      onSend={() => onSend(draft)}
      buttons={
        <>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Send edited
          </button>
        </>
      }
    >
      <textarea
        aria-label="Edited message"
        // The form replaces the button that had the focus.
        ref={(element) => element?.focus()}
        rows={3}
        required
        value={draft}
        onInput={(event) => setDraft(textOf(event))}
        onKeyDown={(event) => {
          if (event.key === "Escape") onClose();
        }}
      />
    </Composer>
  );
}
