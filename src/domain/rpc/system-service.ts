import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AuditActorKind } from "../../../gen/unified/admin/v1/audit_pb.js";
import {
  HistoryRange,
  SystemService,
  type WatchOverviewResponse,
  WatchOverviewResponseSchema,
} from "../../../gen/unified/admin/v1/system_service_pb.js";
import { type Audit, type AuditActor, type AuditLog, type AuditRecord, parseAuditCursor } from "../access/audit.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import { sessionIdOf } from "../call/principal.js";
import { refuse, ServiceError, toPageToken, toStorePage } from "../call/service-error.js";
import type { Finding, OverviewFeed, ServiceStatus, StatusSnapshot } from "../service/service-status.js";
import type { State } from "../service/state.js";
import { type History, pointFields, type HistoryRange as RangeName } from "../service/status-history.js";
import { type RpcService, rpcService } from "./rpc-service.js";

export interface SystemServiceDeps {
  readonly auditLog: Pick<AuditLog, "list">;
  readonly audit: Pick<Audit, "record">;
  readonly shares: Pick<FairShares, "lists">;
  readonly backup: State["backup"];
  /** Absolute path of the only folder into which dashboard sessions may back up. */
  readonly backupFolder: string;
  readonly status: Pick<ServiceStatus, "read">;
  readonly overview: Pick<OverviewFeed, "watch">;
  readonly history: { of(range: RangeName): History | Promise<History> };
  readonly doctor: () => Promise<readonly Finding[]>;
}

/** Whether a path names a file directly in the folder. */
function isIn(folder: string, path: string): boolean {
  const separator = path[folder.length];
  const isBelow = path.startsWith(folder) && (separator === "/" || separator === "\\");
  return isBelow && /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(path.slice(folder.length + 1));
}

/** `unified.admin.v1.SystemService`, for the administrator. */
export function createSystemService(deps: SystemServiceDeps): RpcService {
  const { auditLog, audit, shares, backup, backupFolder, status, overview, history, doctor } = deps;
  return rpcService(SystemService, {
    async getSystem() {
      return { system: await status.read() };
    },
    async watchOverview(_request, ctx) {
      ctx.watching();
      return { items: toResponses(overview.watch(ctx.signal)) };
    },
    async getHistory({ range }) {
      const name = ranges[range] ?? refuse("invalid_value", "range", "'range' is not a known range.");
      const { parts, total } = await history.of(name);
      return { points: parts.map(pointFields), total: pointFields(total) };
    },
    async runDoctor() {
      const checks = (await doctor()).map(({ fix, ...finding }) => ({ ...finding, fix: fix ?? "" }));
      return { checks };
    },
    async listAuditRecords(request, ctx) {
      const page = toStorePage(request, (text) => parseAuditCursor(text) !== null);
      const { records, next } = await runInShare(shares.lists, ctx, ctx.signal, () => auditLog.list(page));
      return {
        records: records.map(auditFields),
        nextPageToken: toPageToken(next),
      };
    },
    async createBackup({ path }, ctx) {
      if (backup === null) {
        throw new ServiceError(
          "unsupported_parameter",
          "This service keeps its state in Redis or in memory: back up Redis by its own means (redis-cli --rdb).",
        );
      }
      const isSession = sessionIdOf(ctx.principal) !== null;
      if (isSession && !isIn(backupFolder, path)) {
        refuse("invalid_value", "path", `'path' must be a new file directly in ${backupFolder}.`);
      }
      if (!path.startsWith("/") && !/^[A-Za-z]:[\\/]/.test(path)) {
        refuse("invalid_value", "path", "'path' must be an absolute path.");
      }
      await backup(path);
      await audit.record(ctx, "state.backup", path);
      return { path };
    },
  });
}

const ranges: Readonly<Record<HistoryRange, RangeName>> = {
  [HistoryRange.UNSPECIFIED]: "hour",
  [HistoryRange.HOUR]: "hour",
  [HistoryRange.DAY]: "day",
  [HistoryRange.WEEK]: "week",
};

async function* toResponses(snapshots: AsyncIterable<StatusSnapshot>): AsyncGenerator<WatchOverviewResponse> {
  for await (const { system, hasChanged } of snapshots) {
    const at = system.now === undefined ? {} : { at: system.now };
    yield create(WatchOverviewResponseSchema, { ...at, ...(hasChanged ? { system } : {}) });
  }
}

const actorKinds: Readonly<Record<AuditActor["kind"], AuditActorKind>> = {
  admin_token: AuditActorKind.ADMIN_TOKEN,
  session: AuditActorKind.SESSION,
  api_key: AuditActorKind.API_KEY,
  system: AuditActorKind.SYSTEM,
  nobody: AuditActorKind.NOBODY,
};

function auditFields({ actor, atMs, ...record }: AuditRecord) {
  return {
    ...record,
    at: timestampFromMs(atMs),
    actorKind: actorKinds[actor.kind],
    actorId: actor.id,
    details: { ...record.details },
  };
}
