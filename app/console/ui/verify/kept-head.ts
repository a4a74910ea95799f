// The head and the keys of a log that this browser keeps, so that it recognizes a log that was replaced.

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

/** Heads that this page has seen, because a browser may refuse to store them. */
const inMemory = new Map<string, KeptHead>()

/** The newest head that was kept of the log. */
export function keptHead(origin: string): KeptHead | undefined {
  const [own, stored] = [inMemory.get(origin), storedHead(origin)]
  if (own === undefined || stored === undefined) return own ?? stored
  return stored.size < own.size ? own : stored
}

function storedHead(origin: string): KeptHead | undefined {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(prefix + origin) ?? 'null')
    return isKeptHead(value) && value.origin === origin ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof DOMException) return undefined
    throw error
  }
}

/** Names of the logs of which the browser keeps a head, for this address. */
export function keptOrigins(): string[] {
  try {
    return Object.keys(localStorage).flatMap((name) =>
      name.startsWith(prefix) ? [name.slice(prefix.length)] : [],
    )
  } catch (error) {
    if (error instanceof DOMException) return []
    throw error
  }
}

/** Keeps a head that continues the one that was kept. */
export function keepHead(head: KeptHead): void {
  inMemory.set(head.origin, head)
  try {
    localStorage.setItem(prefix + head.origin, JSON.stringify(head))
  } catch (error) {
    if (!(error instanceof DOMException)) throw error
  }
}

function isKeptHead(value: unknown): value is KeptHead {
  if (typeof value !== 'object' || value === null) return false
  const { origin, size, root, keys, since } = value as Partial<KeptHead>
  const areTexts = [origin, root, since, ...(Array.isArray(keys) ? keys : [undefined])]
  return Number.isSafeInteger(size) && areTexts.every((text) => typeof text === 'string')
}
