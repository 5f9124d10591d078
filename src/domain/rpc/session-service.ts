import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Role as RoleValue } from "../../../gen/unified/admin/v1/session_pb.js";
import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { type Administrator, administratorName, type SignedIn, type SignInCaller } from "../access/administrator.js";
import type { Audit, AuditAction } from "../access/audit.js";
import { knownForMs } from "../access/known-sign-ins.js";
import { type SessionRecord, type Sessions, sessionAgeMs } from "../access/sessions.js";
import type { CallContext } from "../call/call-context.js";
import { sessionIdOf } from "../call/principal.js";
import { checkLength, checkPresent, refuse, ServiceError, toServiceError } from "../call/service-error.js";
import { type RpcService, rpcService } from "./rpc-service.js";

export interface SessionServiceDeps {
  readonly administrator: Pick<Administrator, "signIn" | "completeSetup" | "createSetupLink" | "changePassword">;
  readonly sessions: Pick<Sessions, "list" | "end">;
  readonly audit: Pick<Audit, "record">;
}

/** `unified.admin.v1.SessionService`: sign-in and the end of sessions. */
export function createSessionService({ administrator, sessions, audit }: SessionServiceDeps): RpcService {
  /**
   * Signs in by `prove` and sets the cookies of the session and of the known browser. Success and failure are recorded in
   * the audit log.
   */
  async function signIn(
    ctx: CallContext,
    action: AuditAction,
    user: string,
    prove: (from: SignInCaller) => Promise<SignedIn>,
  ) {
    const { address, browser, signal } = ctx;
    if (browser === null) {
      throw new ServiceError(
        "method_not_allowed",
        "A session is a cookie: sign in over Connect or gRPC-Web on the HTTP listener.",
      );
    }
    const { userAgent, knownToken: browserToken } = browser;
    const begun = await recordingRefusal(ctx, action, user, () => prove({ address, userAgent, browserToken, signal }));
    browser.keepSession(begun.token, sessionAgeMs);
    browser.keepKnown(begun.browserToken, knownForMs);
    await audit.record(ctx, action, begun.record.id, { user: begun.record.user });
    return sessionFields(begun.record, begun.record.id);
  }

  /**
   * Records wrong passwords in the audit log, but not attempts over the rate limit, so that a flood of them does not fill
   * the log.
   */
  async function recordingRefusal<T>(
    ctx: CallContext,
    action: AuditAction,
    user: string,
    act: () => Promise<T>,
  ): Promise<T> {
    try {
      return await act();
    } catch (thrown) {
      const { code } = toServiceError(thrown);
      // An unknown name may be a password typed into the wrong field.
      const details = { user: user === administratorName ? user : "unknown" };
      if (code === "invalid_api_key") await audit.record(ctx, action, "", details, code);
      throw thrown;
    }
  }

  return rpcService(SessionService, {
    async completeSetup({ token, password }, ctx) {
      checkText(token, "token");
      const session = await signIn(ctx, "administrator.set_up", administratorName, (from) =>
        administrator.completeSetup(token, password, from),
      );
      return { session };
    },
    async signIn({ user, password }, ctx) {
      checkText(user, "user");
      checkText(password, "password");
      const session = await signIn(ctx, "session.sign_in", user, (from) => administrator.signIn(user, password, from));
      return { session };
    },
    async signOut(_request, ctx) {
      const id = sessionIdOf(ctx.principal);
      if (id !== null) {
        await sessions.end(id);
        ctx.browser?.keepSession(null, 0);
        await audit.record(ctx, "session.sign_out", id);
      }
      return {};
    },
    async listSessions(_request, ctx) {
      const current = sessionIdOf(ctx.principal);
      const records = await sessions.list();
      return { sessions: records.map((record) => sessionFields(record, current)) };
    },
    async revokeSession({ id }, ctx) {
      if (!(await sessions.end(id))) {
        refuse("not_found", "id", "There is no session with this id.");
      }
      if (id === sessionIdOf(ctx.principal)) ctx.browser?.keepSession(null, 0);
      await audit.record(ctx, "session.revoke", id);
      return {};
    },
    async changePassword({ currentPassword, newPassword }, ctx) {
      checkText(currentPassword, "current_password");
      const action = "administrator.change_password";
      const { address, signal } = ctx;
      const sessionId = sessionIdOf(ctx.principal);
      await recordingRefusal(ctx, action, administratorName, () =>
        administrator.changePassword({ current: currentPassword, next: newPassword, sessionId, address, signal }),
      );
      await audit.record(ctx, action, administratorName);
      return {};
    },
    async createSetupLink(_request, ctx) {
      const { path, expiresAtMs } = await administrator.createSetupLink();
      await audit.record(ctx, "administrator.create_setup_link", "");
      return { path, expiresAt: timestampFromMs(expiresAtMs) };
    },
  });
}

function checkText(text: string, param: string): void {
  checkPresent(text, param);
  checkLength(text, param, 1_024);
}

function sessionFields(record: SessionRecord, currentId: string | null) {
  const { id, user, address, userAgent } = record;
  return {
    id,
    user,
    role: record.role === "admin" ? RoleValue.ADMIN : RoleValue.VIEWER,
    createdAt: timestampFromMs(record.createdAtMs),
    lastSeenAt: timestampFromMs(record.lastSeenAtMs),
    expiresAt: timestampFromMs(record.expiresAtMs),
    address,
    userAgent,
    current: id === currentId,
  };
}
