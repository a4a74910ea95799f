// A proxy for an object that its owner creates at start, so that others can receive it earlier.

/**
 * Forwards every access to `current()` at the time of the access; methods run on the object itself. While `current()` is
 * undefined, any access throws an error with `name`.
 */
export function lateBound<T extends object>(name: string, current: () => T | undefined): T {
  const running = (): T => {
    const value = current()
    if (value === undefined)
      throw new Error(`${name} is not open: it can be used once the pipeline has started`)
    return value
  }
  // The target is empty: every trap uses the running object.
  return new Proxy({} as T, {
    get(_target, key) {
      const value = running()
      const member: unknown = Reflect.get(value, key, value)
      return typeof member === 'function' ? member.bind(value) : member
    },
    has: (_target, key) => Reflect.has(running(), key),
    getPrototypeOf: () => Reflect.getPrototypeOf(running()),
  })
}
