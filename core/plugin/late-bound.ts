// Objects that can be passed on before the object that they forward to is open.

/** How a member is forwarded; an optional method is a property, as it may be absent. */
export type LateBoundMembers<T> = { readonly [K in keyof T]-?: 'method' | 'property' }

/**
 * A plain object with the members of `T`: they call, or read, those of `current()` at the time of their use. While
 * `current()` is undefined, methods and properties throw an error with `name`.
 */
export function lateBound<T extends object>(
  name: string,
  current: () => T | undefined,
  members: LateBoundMembers<T>,
): T {
  const memberOf = (key: keyof T): unknown => {
    const running = current()
    if (running === undefined)
      throw new Error(`${name} is not open: it can be used once the pipeline has started`)
    const member: unknown = running[key]
    return typeof member === 'function' ? member.bind(running) : member
  }
  const forwarded = {} as T
  for (const key of Object.keys(members) as (keyof T & string)[]) {
    const get = (): unknown => memberOf(key)
    const call = (...args: unknown[]): unknown => Reflect.apply(get() as () => unknown, undefined, args)
    const forward = members[key] === 'method' ? { value: call, writable: true } : { get }
    Object.defineProperty(forwarded, key, { ...forward, configurable: true })
  }
  return forwarded
}
