// The version of the contract, and the symbols that all copies of this package share. A process may load several copies
// (a plugin installed with its own): symbols of the global registry are the same in all of them; classes and module
// variables are not.

/** The version of this package, against which the range of a plugin is checked (semver). */
export const CORE_VERSION = '1.0.0'

const major = 1

/** The symbol of one name, the same in every copy with the same major version. */
export function contractSymbol(kind: 'slots' | 'token', name: string): symbol {
  return Symbol.for(`svc:${kind}/${major}/${name}`)
}

/** The name that `contractSymbol` was given. */
export function contractName(symbol: symbol): string {
  return (symbol.description ?? '').split('/').slice(2).join('/')
}

/** Instances carry the name of their class under this key, so that any copy recognises them. */
export const brand: unique symbol = Symbol.for(`svc:brand/${major}`)

/** Whether `value` is an instance of the branded class `name`, of any copy of this package. */
export function hasBrand(value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && Reflect.get(value, brand) === name
}
