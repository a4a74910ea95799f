// Keeps in this browser what verifies records: the head and the keys of each log, so that it recognizes one that was
// replaced, and the keys of witnesses that the reader has entered.

export interface KeptHead {
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

/** Heads that this page has seen, because a browser may refuse to store them. */
const inMemory = new Map<string, KeptHead>()
let enteredKeys = ''

/** The newest head that was kept of the log. */
export function keptHead(origin: string): KeptHead | undefined {
  const [own, stored] = [inMemory.get(origin), storedHead(origin)]
  if (own === undefined || stored === undefined) return own ?? stored
  return stored.size < own.size ? own : stored
}

function storedHead(origin: string): KeptHead | undefined {
  try {
    const value: unknown = JSON.parse(ifAllowed(() => localStorage.getItem(prefix + origin)) ?? 'null')
    return isKeptHead(value) && value.origin === origin ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Names of the logs of which the browser keeps a head, for this address. */
export function keptOrigins(): string[] {
  const names = ifAllowed(() => Object.keys(localStorage)) ?? []
  return names.flatMap((name) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []))
}

/** Keeps a head that continues the one that was kept. */
export function keepHead(head: KeptHead): void {
  inMemory.set(head.origin, head)
  ifAllowed(() => localStorage.setItem(prefix + head.origin, JSON.stringify(head)))
}

/** Verifier keys of witnesses, one a line. */
export function keptWitnessKeys(): string {
  return ifAllowed(() => localStorage.getItem(witnesses)) ?? enteredKeys
}

export function keepWitnessKeys(lines: string): void {
  enteredKeys = lines
  ifAllowed(() => localStorage.setItem(witnesses, lines))
}

/** Undefined if the browser does not let this page store. */
function ifAllowed<T>(use: () => T): T | undefined {
  try {
    return use()
  } catch (error) {
    if (error instanceof DOMException) return undefined
    throw error
  }
}

function isKeptHead(value: unknown): value is KeptHead {
  if (typeof value !== 'object' || value === null) return false
  const { origin, size, root, keys, since } = value as Partial<KeptHead>
  const areTexts = [origin, root, since, ...(Array.isArray(keys) ? keys : [undefined])]
  return Number.isSafeInteger(size) && areTexts.every((text) => typeof text === 'string')
}
