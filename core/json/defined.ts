/** The members of `T` that may be undefined become optional ones. */
export type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** `members` without those that are undefined, to spread into an object whose optional members must have a value. */
export function defined<T extends object>(members: T): Defined<T> {
  const present: Partial<T> = {}
  for (const name in members) if (members[name] !== undefined) present[name] = members[name]
  return present as Defined<T>
}
