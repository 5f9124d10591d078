import type { AuditLog } from "../../domain/access/audit.js";
import type { KeyStore } from "../../domain/access/key-store.js";
import type { SessionStore } from "../../domain/access/sessions.js";
import type { SettingsStore } from "../../domain/access/setup-link.js";
import type { LocalChanges } from "../../domain/call/change-feed.js";
import type { StoreLink } from "./worker-link.js";

export function createKeyStore(link: StoreLink, changes: LocalChanges): KeyStore {
  const tell = (id: string): void => changes.tell({ kind: "key", id });
  return {
    findByHash: (hash) => link.read("findKeyByHash", hash),
    find: (id) => link.read("findKey", id),
    async insert(record) {
      await link.write("insertKey", record);
      tell(record.id);
    },
    async insertFirst(record) {
      const isFirst = await link.write("insertFirstKey", record);
      if (isFirst) tell(record.id);
      return isFirst;
    },
    list: (page) => link.read("listKeys", page),
    async revoke(id, atMs) {
      const record = await link.write("revokeKey", id, atMs);
      if (record !== null) tell(id);
      return record;
    },
    async update(id, change) {
      const record = await link.write("updateKey", id, change);
      if (record !== null) tell(id);
      return record;
    },
    async rotate(id, successor, oldExpiresAtMs) {
      const isRotated = await link.write("rotateKey", id, successor, oldExpiresAtMs);
      if (isRotated) {
        tell(id);
        tell(successor.id);
      }
      return isRotated;
    },
    touch: (id, atMs) => link.write("touchKey", id, atMs),
  };
}

export function createSessionStore(link: StoreLink, changes: LocalChanges): SessionStore {
  const tell = (id: string): void => changes.tell({ kind: "session", id });
  return {
    async insert(session) {
      await link.write("insertSession", session);
      tell(session.id);
    },
    findByHash: (tokenHash) => link.read("findSession", tokenHash),
    async touch(id, lastSeenAtMs, expiresAtMs) {
      if (await link.write("touchSession", id, lastSeenAtMs, expiresAtMs)) tell(id);
    },
    list: (nowMs) => link.read("listSessions", nowMs),
    async remove(id) {
      const isRemoved = await link.write("removeSession", id);
      if (isRemoved) tell(id);
      return isRemoved;
    },
    async removeOthers(user, keepId) {
      const removed = await link.write("removeOtherSessions", user, keepId);
      for (const id of removed) tell(id);
      return removed.length;
    },
  };
}

export function createSettingsStore(link: StoreLink, changes: LocalChanges): SettingsStore {
  return {
    get: (name) => link.read("getSetting", name),
    async put(name, value, expectedVersion) {
      const isPut = await link.write("putSetting", name, value, expectedVersion);
      if (isPut) changes.tell({ kind: "settings" });
      return isPut;
    },
    async remove(name) {
      await link.write("removeSetting", name);
      changes.tell({ kind: "settings" });
    },
  };
}

export function createAuditLog(link: StoreLink): AuditLog {
  return {
    append: (record) => link.write("appendAudit", record),
    list: (page) => link.read("listAudit", page),
  };
}
