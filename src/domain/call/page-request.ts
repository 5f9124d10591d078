import { ServiceError } from "./service-error.js";

/** Page of a list, the same in all services (AIP-158). */
export interface PageRequest {
  /** 0 to 1,000; 0 means 100. */
  readonly pageSize: number;
  /** `nextPageToken` of the page before; empty for the first. */
  readonly pageToken: string;
}

/** The same as the store takes it. */
export interface StorePage {
  readonly limit: number;
  /** Cursor of the page before; null for the first. */
  readonly after: string | null;
}

const pageSizeDefault = 100;
const pageSizeMax = 1_000;

/** Throws ServiceError naming the field at fault. `isCursor` says whether a store can have issued the cursor. */
export function toStorePage({ pageSize, pageToken }: PageRequest, isCursor: (text: string) => boolean): StorePage {
  checkPageSize(pageSize);
  return {
    limit: pageSize === 0 ? pageSizeDefault : pageSize,
    after: pageToken === "" ? null : cursorOfToken(pageToken, isCursor),
  };
}

/** The token of the next page; empty when there is none. */
export function toPageToken(cursor: string | null): string {
  return cursor === null ? "" : Buffer.from(cursor).toString("base64url");
}

function checkPageSize(pageSize: number): void {
  if (pageSize < 0) {
    throw new ServiceError("integer_below_min_value", `'page_size' must be 0 or more, not ${pageSize}.`, {
      param: "page_size",
    });
  }
  if (pageSize > pageSizeMax) {
    throw new ServiceError("integer_above_max_value", `'page_size' must be ${pageSizeMax} or less, not ${pageSize}.`, {
      param: "page_size",
    });
  }
}

function cursorOfToken(token: string, isCursor: (text: string) => boolean): string {
  const cursor = Buffer.from(token, "base64url").toString();
  if (isCursor(cursor)) return cursor;
  throw new ServiceError("invalid_value", "'page_token' is not the next_page_token of an earlier page.", {
    param: "page_token",
  });
}
