// The head and the keys of a log that this browser keeps, so that a log which is not the one of yesterday is seen as such.

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

export function keptHead(origin: string): KeptHead | undefined {
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

/** Returns whether the browser keeps it. */
export function keepHead(head: KeptHead): boolean {
  try {
    localStorage.setItem(prefix + head.origin, JSON.stringify(head))
    return true
  } catch (error) {
    if (error instanceof DOMException) return false
    throw error
  }
}

function isKeptHead(value: unknown): value is KeptHead {
  if (typeof value !== 'object' || value === null) return false
  const { origin, size, root, keys, since } = value as Partial<KeptHead>
  const areTexts = [origin, root, since, ...(Array.isArray(keys) ? keys : [undefined])]
  return Number.isSafeInteger(size) && areTexts.every((text) => typeof text === 'string')
}
