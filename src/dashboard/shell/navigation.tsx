import { useEffect, useRef, useState } from "preact/hooks";
import { call, isUnauthenticated } from "../lib/api.js";
import { hrefOf, PageLink, prefix, useLocation } from "../lib/location.js";
import { useData } from "../lib/use-data.js";
import { useAction } from "../ui/action.js";
import { Problem } from "../ui/feedback.js";
import { Icon } from "../ui/icon.js";
import { groups, pageNamed } from "./pages.js";

export interface NavigationProps {
  readonly page: string;
  readonly onSearch: () => void;
}

/** The navigation: next to the page or, on narrow screens, behind a button above it. */
export function Navigation({ page, onSearch }: NavigationProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <header class="top-bar">
        <button type="button" class="quiet icon-button" aria-label="Menu" onClick={() => setOpen(true)}>
          <Icon name="menu" />
        </button>
        <Brand />
        <button type="button" class="quiet icon-button" aria-label="Search" onClick={onSearch}>
          <Icon name="search" />
        </button>
      </header>
      <div class="navigation">
        <Contents page={page} onSearch={onSearch} onFollow={() => {}} />
      </div>
      {isOpen && (
        <Drawer onClose={() => setOpen(false)}>
          <Contents page={page} onSearch={onSearch} onFollow={() => setOpen(false)} />
        </Drawer>
      )}
    </>
  );
}

/** The mark of the service with its name. */
export function Brand() {
  return (
    <div class="brand">
      <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" />
        <path d="M9 8v9a7 7 0 0 0 14 0V8" />
      </svg>
      Unified Inference
    </div>
  );
}

interface DrawerProps {
  readonly onClose: () => void;
  readonly children: preact.ComponentChildren;
}

/** A dialog at the left edge. A click outside closes it. */
function Drawer({ onClose, children }: DrawerProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog
      ref={element}
      class="drawer"
      aria-label="Menu"
      onClose={onClose}
      onPointerDown={({ target }) => {
        if (target === element.current) element.current?.close();
      }}
    >
      <div class="navigation">
        <button type="button" class="quiet icon-button" aria-label="Close" onClick={() => element.current?.close()}>
          <Icon name="close" />
        </button>
        {children}
      </div>
    </dialog>
  );
}

interface ContentsProps extends NavigationProps {
  readonly onFollow: () => void;
}

function Contents({ page, onSearch, onFollow }: ContentsProps) {
  const account = useAccount(page);
  return (
    <>
      <Brand />
      <button
        type="button"
        class="search-button"
        onClick={() => {
          onFollow();
          onSearch();
        }}
      >
        <Icon name="search" />
        Search
        <kbd>{isApple() ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <nav aria-label="Main">
        {groups.map(({ title, pages }) => (
          <div key={title} class="navigation-group">
            {title !== "" && <h2>{title}</h2>}
            <ul>
              {pages.map((entry) => (
                <li key={entry.name}>
                  <PageLink
                    page={entry.name}
                    query={entry.isOfAccount === true ? { account } : {}}
                    isCurrent={entry.name === page}
                    onFollow={onFollow}
                  >
                    <Icon name={entry.icon} />
                    {entry.title}
                  </PageLink>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <Foot />
    </>
  );
}

const storageKey = "uis.account";

/** The account that links lead to: the one of the page in view, or the last one that this browser tab has shown. Empty: the default one. */
function useAccount(page: string): string {
  const { query } = useLocation();
  const shown = pageNamed(page)?.isOfAccount === true ? (query.get("account") ?? "") : null;
  useEffect(() => {
    if (shown === null) return;
    try {
      window.sessionStorage.setItem(storageKey, shown);
    } catch {
      // Storage may be forbidden: then links of other pages lead to the default account.
    }
  }, [shown]);
  return shown ?? lastAccount();
}

function lastAccount(): string {
  try {
    return window.sessionStorage.getItem(storageKey) ?? "";
  } catch {
    return "";
  }
}

function isApple(): boolean {
  return /Mac|iPhone|iPad/.test(window.navigator.userAgent);
}

/** Documentation, sign-out and version. */
function Foot() {
  const { value } = useData((signal) => call("unified.admin.v1.SystemService/GetSystem", {}, signal), []);
  const signOut = useAction(async () => {
    try {
      await call("unified.admin.v1.SessionService/SignOut", {});
    } catch (thrown) {
      if (!isUnauthenticated(thrown)) throw thrown;
    }
    window.location.assign(hrefOf(""));
  });
  return (
    <div class="navigation-foot">
      <a href={`${prefix}/docs/`}>
        <Icon name="api" />
        API documentation
      </a>
      <button type="button" class="quiet" disabled={signOut.isRunning} onClick={signOut.start}>
        <Icon name="sign-out" />
        Sign out
      </button>
      <Problem error={signOut.error} />
      <small>{value === null ? " " : `Version ${value.system?.version ?? ""}`}</small>
    </div>
  );
}
