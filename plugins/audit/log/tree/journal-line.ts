// The lines of `audit.journal`. Each is a leaf of the log's tree and states what the tree holds before it.

/** `[day, start, end, lines]`: the bytes `[start, end)` of a day's log, which are `lines` whole lines. */
export type SealRange = readonly [day: string, start: number, end: number, lines: number]

/** A public key line, the first leaf that it may sign, the first that it may not, the id of the key that introduced it. */
export type KeySpan = readonly [key: string, from: number, until: number | null, by: string | null]

/** The newest head of the log that a fork continues. */
export interface ParentHead {
  readonly origin: string
  readonly size: number
  /** Base64. */
  readonly root: string
}

interface GenesisBody {
  readonly kind: 'genesis'
  /** Version of the directory's format. */
  readonly format: 1
  readonly origin: string
  readonly retention_days: number
  /** `ed25519:<base64>`: the first key of the log. */
  readonly key: string
  readonly parent?: ParentHead
}

export interface SealBody {
  readonly kind: 'seal'
  readonly ranges: readonly SealRange[]
  // The first seal of an hour has all of these, other seals none. They repeat what the lines before state, so that a
  // writer need not read them all.
  /** Sealed bytes of every day that is not removed, after this line. */
  readonly ends?: readonly (readonly [day: string, end: number])[]
  /** Every key of the log so far. */
  readonly keys?: readonly KeySpan[]
  /** The retention in force. */
  readonly retention_days?: number
  /** `at` of the first journal line after the last step of more than 36 hours. */
  readonly since?: string
}

interface RemoveBody {
  readonly kind: 'remove'
  readonly day: string
  /** Records of the day. */
  readonly lines: number
  /** Base64 of the SHA-256 of `audit-<day>.cover`. */
  readonly cover: string
}

interface ErrorBody {
  readonly kind: 'fault'
  readonly day: string
  /** Bytes of the day that were sealed. */
  readonly sealed: number
  /** Bytes of its whole lines that were found. */
  readonly found: number
  /** Offset at which sealing of the day continues. */
  readonly resume: number
}

interface KeyBody {
  readonly kind: 'key'
  /** A key that enters: `ed25519:<base64>`, valid from the next leaf on. */
  readonly key?: string
  /** Id of a key that leaves. */
  readonly retired?: string
  /** The first leaf at which `retired` is not trusted; after this line. */
  readonly until?: number
}

interface RevokeBody {
  readonly kind: 'revoke'
  /** Id of the key. */
  readonly revoked: string
  /** The first leaf at which it is not trusted; may lie before this line. */
  readonly until: number
}

interface RetentionBody {
  readonly kind: 'retention'
  /** The retention from this line on: a removal of a younger day is a failure. */
  readonly days: number
}

export type JournalBody =
  | GenesisBody
  | SealBody
  | RemoveBody
  | ErrorBody
  | KeyBody
  | RevokeBody
  | RetentionBody

export interface JournalPlace {
  /** 32 hexadecimal digits. */
  readonly log_id: string
  /** Index of this line in the tree. */
  readonly leaf: number
  /** Base64 of the root over the leaves before this line. */
  readonly root: string
  /** ISO 8601 in UTC with milliseconds. */
  readonly at: string
  readonly key_id: string
}

export type UnsignedJournalLine = { readonly journal: 1 } & JournalPlace & JournalBody
export type JournalLine = UnsignedJournalLine & { readonly sig: string }
export type JournalKind = JournalBody['kind']
export type LineOf<K extends JournalKind> = Extract<JournalLine, { kind: K }>
