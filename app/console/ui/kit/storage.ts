// The storage of the browser for this address. A browser may refuse it, or it may be full: what it does not store is kept
// until the page is left.
const unstored = new Map<string, string | null>()

export function storedValue(name: string): string | null {
  const own = unstored.get(name)
  return own === undefined ? (ifAllowed(() => localStorage.getItem(name)) ?? null) : own
}

/** Names of the values that the browser has stored. */
export function storedNames(): string[] {
  return ifAllowed(() => Object.keys(localStorage)) ?? []
}

/** Whether the browser has stored the value; null removes it. */
export function storeValue(name: string, value: string | null): boolean {
  const isStored =
    ifAllowed(() => {
      if (value === null) localStorage.removeItem(name)
      else localStorage.setItem(name, value)
      return true
    }) ?? false
  if (isStored) unstored.delete(name)
  else unstored.set(name, value)
  return isStored
}

/** Undefined if the browser refuses, by whatever error. */
function ifAllowed<T>(use: () => T): T | undefined {
  try {
    return use()
  } catch {
    return undefined
  }
}
