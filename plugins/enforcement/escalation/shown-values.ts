// The values that name a waiting call for its reviewers: those that its rules read, then other short ones.
import type { Escalation } from '@svc/core'
import { isJsonObject } from '@svc/core/json'

const MAX_VALUES = 3
/** Characters of a name and of a value. */
const MAX_TEXT = 40

type ShownValues = NonNullable<Escalation['values']>

/**
 * A caller may add arguments, and must not push out those that a rule is about. `input` is as in `canonicalInput`, redacted
 * for reviewers; the paths begin with `args` or `params`.
 */
export function shownValues(input: string, paths: readonly (readonly (string | number)[])[]): ShownValues {
  const root = inputOf(input)
  const read = paths.flatMap((path) => {
    const value = textOf(valueAt(root, path))
    return value === undefined ? [] : [{ name: cut(nameOf(path)), value: cut(value) }]
  })
  const args = isJsonObject(root['args']) ? Object.entries(root['args']) : []
  const isNumber = (one: readonly [string, unknown]) => typeof one[1] === 'number'
  const others = [...args.filter(isNumber), ...args.filter((one) => !isNumber(one))].flatMap(
    ([name, one]) => {
      const value = textOf(one)
      return value !== undefined && cut(value) === value && cut(name) === name ? [{ name, value }] : []
    },
  )
  const all = [...read, ...others]
  return all.filter(({ name }, at) => all.findIndex((one) => one.name === name) === at).slice(0, MAX_VALUES)
}

function inputOf(text: string): Record<string, unknown> {
  let input: unknown
  try {
    input = JSON.parse(text)
  } catch {
    // Redaction may leave a text that is not JSON.
    return {}
  }
  if (!isJsonObject(input) || Object.keys(input).join() !== 'arguments,params') return { args: input }
  return { args: input['arguments'], params: input['params'] }
}

function valueAt(root: Record<string, unknown>, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>((value, name) => {
    if (Array.isArray(value)) return value.at(Number(name))
    return isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  }, root)
}

/** Undefined for a value that is not a text, a number or a boolean. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? JSON.stringify(value) : undefined
}

/** `args.customer.id` is shown as `customer.id`. */
function nameOf([root, ...names]: readonly (string | number)[]): string {
  return (root === 'args' ? names : [root, ...names]).join('.')
}

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1).toWellFormed()}…` : text
}
