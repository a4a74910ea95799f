// The port to a board: a short list that every gateway of a deployment reads within moments, and says that it has read.
import type { MaybePromise } from '../call/maybe-promise.js'

export interface BoardReader {
  /** Unique for the life of the reader. */
  readonly id: string
  /** Its name, for people. */
  readonly name: string
  /** The version of the list that it applies; empty before the first. */
  readonly version: string
}

export interface BoardEntry {
  readonly id: string
  readonly value: string
  /** Milliseconds to its end, by the clock of the store; not positive if it has ended and nobody has removed it. */
  readonly leftMs: number
}

export interface BoardState {
  /** Changes with the list. What is before the colon changes if the store has lost its content. */
  readonly version: string
  /** Undefined if the version is the one that was asked about. */
  readonly entries: readonly BoardEntry[] | undefined
  /** The time of a store that has a clock of its own, in milliseconds since the epoch. */
  readonly time?: number
}

/** A reader, and the time since it read last, in milliseconds. */
export interface SeenReader extends BoardReader {
  readonly silentMs: number
}

/** Its operations reject while the store is down. */
export interface Board {
  /** The list; only its version if that is `version`. */
  read(version: string): Promise<BoardState>
  /** Says that the reader lives, and which version it applies. */
  seen(reader: BoardReader): Promise<void>
  /** The gateways of the last hour. */
  readers(): Promise<SeenReader[]>
  /** Sets an entry, which replaces one with the same id, and returns the new version. */
  put(id: string, value: string, ttlMs: number): Promise<string>
  /** Removes an entry. Undefined if there was none, so that of several removals one counts. */
  remove(id: string): Promise<string | undefined>
  close(): MaybePromise<void>
}

/** The directory of the board of one host's processes; the host opens the board, because it loads LMDB. */
export interface BoardDirectory {
  readonly dir: string
}

/** Opens a connection of its own, which the caller closes. Does not wait for it. */
export type OpenBoard = () => Promise<Board>
