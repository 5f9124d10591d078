/** Everything that can be asked of the worker: plain functions on the database, each one atomic step. */
import { createAuditRows } from "./audit-rows.js";
import { backUpTo } from "./backup-file.js";
import { createCatalogRows } from "./catalog-rows.js";
import { createDeliveryRows, type DeliveryBounds, deliveryBounds } from "./deliveries/delivery-rows.js";
import { createEndpointRows } from "./endpoint-rows.js";
import { createKeyRows } from "./key-rows.js";
import { createLimitRows } from "./limit-rows.js";
import { createLiveRows } from "./live-rows.js";
import { createPurgeRows } from "./purge-rows.js";
import { createSessionRows } from "./session-rows.js";
import { createSettingRows } from "./setting-rows.js";
import { createSettlementRows } from "./settlement-rows.js";
import type { SqliteDatabase } from "./sqlite-binding.js";
import { createThresholdRows } from "./threshold-rows.js";
import { createUsageRows } from "./usage-rows.js";

export function createVerbs(db: SqliteDatabase, bounds: DeliveryBounds = deliveryBounds) {
  const keys = createKeyRows(db);
  const sessions = createSessionRows(db);
  const settings = createSettingRows(db);
  const audit = createAuditRows(db);
  const limits = createLimitRows(db);
  const thresholds = createThresholdRows(db);
  const deliveries = createDeliveryRows(db, bounds);
  const endpoints = createEndpointRows(db, deliveries.queues, deliveries.health);
  const usage = createUsageRows(db);
  const live = createLiveRows(db);
  const settlements = createSettlementRows(db, { live, usage, deliveries });
  const rewriteOne = db.prepare("UPDATE migrations SET number = number WHERE number = 1");
  const anyRow = db.prepare("SELECT number FROM migrations LIMIT 1");
  return {
    /** Run after the commit, outside of any transaction. */
    reads: {
      ping: () => anyRow.get() !== undefined,
      newestSettlementAtMs: settlements.newestAtMs,
      liveRequests: live.all,
      settledAmong: settlements.settledAmong,
      endpointCounts: endpoints.counts,
      findKey: keys.find,
      findKeyByHash: keys.findByHash,
      listKeys: keys.list,
      findSession: sessions.findByHash,
      listSessions: sessions.list,
      getSetting: settings.get,
      listAudit: audit.list,
      listLimits: limits.list,
      listThresholds: thresholds.list,
      listEndpoints: endpoints.list,
      findEndpoint: endpoints.find,
      findDelivery: deliveries.find,
      deliveryPayload: deliveries.payload,
      listDeliveries: deliveries.step,
      deliveryBacklog: deliveries.backlog,
      countDueDeliveries: deliveries.countDue,
      usageRows: usage.rows,
      usageSlice: usage.slice,
      accounts: usage.accounts,
      used: usage.used,
      backUp: (file: string) => backUpTo(db, file),
    },
    writes: {
      /** Changes nothing, and fails where nothing can be written. */
      probe: () => {
        rewriteOne.run();
      },
      insertKey: keys.insert,
      insertFirstKey: keys.insertFirst,
      revokeKey: keys.revoke,
      updateKey: keys.update,
      rotateKey: keys.rotate,
      touchKey: keys.touch,
      firstSeen: createCatalogRows(db).firstSeen,
      insertSession: sessions.insert,
      touchSession: sessions.touch,
      removeSession: sessions.remove,
      removeOtherSessions: sessions.removeOthers,
      putSetting: settings.put,
      removeSetting: settings.remove,
      appendAudit: audit.append,
      putLimits: limits.put,
      removeLimits: limits.remove,
      insertThreshold: thresholds.insert,
      replaceThreshold: thresholds.replace,
      removeThreshold: thresholds.remove,
      insertEndpoint: endpoints.insert,
      replaceEndpoint: endpoints.replace,
      removeEndpoint: endpoints.remove,
      claimDeliveries: deliveries.claim,
      handBackDeliveries: deliveries.handBack,
      finishDelivery: deliveries.finish,
      retryDelivery: deliveries.retryNow,
      replayDeliveries: deliveries.replay,
      noteLive: live.insert,
      noteProgress: live.progress,
      settle: settlements.settle,
      purge: createPurgeRows(db, deliveries).purge,
    },
    /** What writes have put off to the end of their transaction: to be written before the commit, or forgotten without. */
    deferred: {
      addUsage: usage.add,
      write(): void {
        usage.writeAdded();
        live.writeRemoved();
        deliveries.queues.writeNoted();
        deliveries.health.writeChanged();
      },
      forget(): void {
        usage.forgetAdded();
        live.forgetRemoved();
        deliveries.queues.forgetNoted();
        deliveries.health.forgetChanged();
      },
    },
  };
}

export type Verbs = ReturnType<typeof createVerbs>;
export type Reads = Verbs["reads"];
export type Writes = Verbs["writes"];
