/** The role of the signed-in user. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { ListSessionsResponseJson } from "../../../gen/unified/admin/v1/session_service_pb.js";

export type Role = "admin" | "viewer";

/** The role of the session that made the call. Without a session, as with a development proxy, all buttons are shown. */
export function roleOf({ sessions = [] }: ListSessionsResponseJson): Role {
  return sessions.some(({ current, role }) => current === true && role === "ROLE_VIEWER") ? "viewer" : "admin";
}

export const RoleContext = createContext<Role>("admin");

/** Whether the service accepts changes from this session. Buttons that change something are absent otherwise. */
export function useCanChange(): boolean {
  return useContext(RoleContext) === "admin";
}
