// One sentence about a waiting call: the caller and the call.
const MAX_VALUES = 3
const MAX_VALUE = 40

/** The first short values of an input, such as `amount 240`; numbers first, as they are what most rules are about. */
export function valuesIn(input: string | undefined): readonly (readonly [name: string, value: string])[] {
  const value = input === undefined ? undefined : parsed(input)
  if (!isObject(value)) return []
  const whole = 'arguments' in value && isObject(value.arguments) ? value.arguments : value
  const short = Object.entries(whole).flatMap(([name, one]): [string, string][] => {
    const text = typeof one === 'string' ? one : JSON.stringify(one)
    const isScalar = ['string', 'number', 'boolean'].includes(typeof one)
    return isScalar && text.length <= MAX_VALUE && name.length <= MAX_VALUE ? [[name, text]] : []
  })
  const isNumber = ([name]: [string, string]) => typeof Reflect.get(whole, name) === 'number'
  return [...short.filter(isNumber), ...short.filter((one) => !isNumber(one))].slice(0, MAX_VALUES)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Redaction may leave text that is not JSON; it is shown as it is.
    return undefined
  }
}

/** The input with line breaks, or unchanged if it is not JSON. */
export function indented(text: string): string {
  const value = parsed(text)
  return value === undefined ? text : JSON.stringify(value, null, 2)
}
