// Keeps in this browser what verifies records: the head and the keys of each log, so that it recognizes one that was
// replaced, and the keys of witnesses that the reader has entered.
import { storedNames, storedValue, storeValue } from '../kit/storage.js'

export interface SavedHead {
  readonly origin: string
  readonly size: number
  /** Base64. */
  readonly root: string
  /** Public key lines. */
  readonly keys: readonly string[]
  /** ISO 8601: when the first head of the log was kept. */
  readonly since: string
}

const prefix = 'svc-head:'
const witnesses = 'svc-witness-keys'

/** Heads that this page has seen: another page may store an older one, or remove them. */
const inMemory = new Map<string, SavedHead>()

/** The newest head that was kept of the log. */
export function keptHead(origin: string): SavedHead | undefined {
  const [own, stored] = [inMemory.get(origin), storedHead(origin)]
  if (own === undefined || stored === undefined) return own ?? stored
  return stored.size < own.size ? own : stored
}

function storedHead(origin: string): SavedHead | undefined {
  try {
    const value: unknown = JSON.parse(storedValue(prefix + origin) ?? 'null')
    return isKeptHead(value) && value.origin === origin ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Names of the logs of which the browser keeps a head, for this address. */
export function keptOrigins(): string[] {
  return storedNames().flatMap((name) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []))
}

/** Keeps a head that continues the one that was kept; false if it is lost when the page is left. */
export function keepHead(head: SavedHead): boolean {
  inMemory.set(head.origin, head)
  return storeValue(prefix + head.origin, JSON.stringify(head))
}

/** Verifier keys of witnesses, one a line. */
export function keptWitnessKeys(): string {
  return storedValue(witnesses) ?? ''
}

/** False if they are lost when the page is left. */
export function keepWitnessKeys(lines: string): boolean {
  return storeValue(witnesses, lines)
}

function isKeptHead(value: unknown): value is SavedHead {
  if (typeof value !== 'object' || value === null) return false
  const { origin, size, root, keys, since } = value as Partial<SavedHead>
  const areTexts = [origin, root, since, ...(Array.isArray(keys) ? keys : [undefined])]
  return Number.isSafeInteger(size) && areTexts.every((text) => typeof text === 'string')
}
