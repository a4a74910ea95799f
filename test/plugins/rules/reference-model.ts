// A second evaluator of conditions, as plain as possible: for comparison. It knows no bounds.
import { Environment } from '@marcbachmann/cel-js'

export class NoValue extends Error {}

interface Node {
  readonly op: string
  readonly args: unknown
}

type Variables = Readonly<Record<string, unknown>>

/** The value; throws `NoValue` for an error. */
export function referenceValue(node: Node, variables: Variables): unknown {
  const args = (Array.isArray(node.args) ? node.args : []) as unknown[]
  const at = (index: number): unknown => referenceValue(args[index] as Node, variables)
  switch (node.op) {
    case 'value':
      return node.args
    case 'id':
      return name(node.args as string, variables)
    case '.':
      return member(at(0), args[1] as string)
    case '[]':
      return item(at(0), at(1))
    case 'list':
      return args.map((_, index) => at(index))
    case '?:':
      return bool(at(0)) ? at(1) : at(2)
    case '!_':
      return !bool(referenceValue(node.args as Node, variables))
    case '-_': {
      const value = referenceValue(node.args as Node, variables)
      return typeof value === 'number' ? -value : typeof value === 'bigint' ? -value : none()
    }
    case '||':
    case '&&':
      return logical(node.op === '||', [() => at(0), () => at(1)])
    case '==':
      return equal(at(0), at(1))
    case '!=':
      return !equal(at(0), at(1))
    case 'in':
      return isIn(at(0), at(1))
    case 'call':
      return call(args[0] as string, args[1] as Node[], variables)
    case 'rcall':
      return method(args[0] as string, args[1] as Node, args[2] as Node[], variables)
    default:
      return operation(node.op, at(0), at(1))
  }
}

function none(): never {
  throw new NoValue()
}

function bool(value: unknown): boolean {
  return typeof value === 'boolean' ? value : none()
}

const typeNames = ['bool', 'double', 'int', 'list', 'map', 'null_type', 'string']

function name(id: string, variables: Variables): unknown {
  return Object.hasOwn(variables, id) ? variables[id] : typeNames.includes(id) ? `type ${id}` : none()
}

function typeName(value: unknown): string {
  if (value === null) return 'null_type'
  if (Array.isArray(value)) return 'list'
  if (value instanceof Date) return 'timestamp'
  if (typeof value === 'string' && value.startsWith('type ')) return 'type'
  const names: Record<string, string> = { bigint: 'int', number: 'double', boolean: 'bool', object: 'map' }
  return names[typeof value] ?? 'string'
}

const isMap = (value: unknown): value is Record<string, unknown> => typeName(value) === 'map'

/** Members of these tests differ only in ASCII case. */
function find(object: object, wanted: string): string | undefined {
  const alike = Object.keys(object).map((key) => key.toLowerCase())
  const found = Object.keys(object).filter((key) => key.toLowerCase() === wanted.toLowerCase())
  return found.length > 1 || (alike.length === 0 && wanted === '') ? none() : found[0]
}

function member(value: unknown, key: string): unknown {
  if (!isMap(value)) return none()
  const found = find(value, key)
  const inner = found === undefined ? undefined : Object.getOwnPropertyDescriptor(value, found)?.value
  return inner === undefined ? none() : inner
}

function item(value: unknown, index: unknown): unknown {
  if (typeof index === 'string') return member(value, index)
  const found = Array.isArray(value) && typeof index !== 'object' ? value[Number(index)] : undefined
  return found === undefined ? none() : found
}

function logical(isOr: boolean, sides: (() => unknown)[]): boolean {
  const values = sides.map((side) => {
    try {
      return bool(side())
    } catch (error) {
      if (error instanceof NoValue) return error
      throw error
    }
  })
  if (values.includes(isOr)) return isOr
  return values.every((value) => value === !isOr) ? !isOr : none()
}

const isNumber = (value: unknown) => typeof value === 'number' || typeof value === 'bigint'

function equal(a: unknown, b: unknown): boolean {
  if (a === null || b === null || (isNumber(a) && isNumber(b)) || typeName(a) === typeName(b))
    return same(a, b)
  return none()
}

function same(a: unknown, b: unknown): boolean {
  // biome-ignore lint/suspicious/noDoubleEquals: exact for an int and a double.
  if (isNumber(a) && isNumber(b)) return a == b
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((one, at) => equal(one, b[at]))
  if (isMap(a) && isMap(b)) {
    const keys = Object.keys(a)
    return (
      keys.length === Object.keys(b).length &&
      keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]))
    )
  }
  return a instanceof Date && b instanceof Date ? +a === +b : a === b
}

function isIn(value: unknown, within: unknown): boolean {
  if (Array.isArray(within)) {
    return logical(
      true,
      within.map((one) => () => equal(value, one)),
    )
  }
  return isMap(within) && typeof value === 'string' && !value.startsWith('type ')
    ? find(within, value) !== undefined
    : none()
}

function operation(op: string, a: unknown, b: unknown): unknown {
  if (['<', '<=', '>', '>='].includes(op)) {
    const comparable =
      (isNumber(a) && isNumber(b)) ||
      (typeName(a) === typeName(b) && ['string', 'timestamp'].includes(typeName(a)))
    if (!comparable) return none()
    const [x, y] = [a as number, b as number]
    return op === '<' ? x < y : op === '<=' ? x <= y : op === '>' ? x > y : x >= y
  }
  if (op === '+' && typeName(a) === 'string' && typeName(b) === 'string') return `${a}${b}`
  if (op === '+' && Array.isArray(a) && Array.isArray(b)) return [...a, ...b]
  if (!isNumber(a) || !isNumber(b)) return none()
  if (typeof a === 'bigint' && typeof b === 'bigint') {
    if ((op === '/' || op === '%') && b === 0n) return none()
    const exact = op === '+' ? a + b : op === '-' ? a - b : op === '*' ? a * b : op === '/' ? a / b : a % b
    return BigInt.asIntN(64, exact) === exact ? exact : none()
  }
  const [x, y] = [a, b].map((one) => {
    const double = Number(one)
    return typeof one === 'bigint' && BigInt(double) !== one ? none() : double
  }) as [number, number]
  const whole = Number.isInteger(x) && Number.isInteger(y)
  if ((op === '/' || op === '%') && y === 0) return none()
  if (op === '%' && !whole) return none()
  const result = op === '+' ? x + y : op === '-' ? x - y : op === '*' ? x * y : op === '/' ? x / y : x % y
  return Number.isFinite(result) && (!whole || op === '/' || Number.isSafeInteger(result)) ? result : none()
}

function call(fn: string, args: Node[], variables: Variables): unknown {
  const [first] = args as [Node]
  if (fn === 'has') {
    const [inner, key] = first.args as [Node, string]
    const value = referenceValue(inner, variables)
    return isMap(value) ? find(value, key) !== undefined : none()
  }
  const value = referenceValue(first, variables)
  switch (fn) {
    case 'dyn':
      return value
    case 'type':
      return `type ${typeName(value)}`
    case 'size':
      return BigInt(sizeOf(value))
    case 'string':
      return typeName(value) === 'string' || isNumber(value) || typeof value === 'boolean'
        ? String(value)
        : none()
    case 'int':
      if (typeof value === 'bigint') return value
      if (typeof value === 'number') return Math.abs(value) < 2 ** 63 ? BigInt(Math.trunc(value)) : none()
      return typeof value === 'string' && /^-?(0|[1-9]\d*)$/.test(value) ? BigInt(value) : none()
    case 'double':
      if (typeof value === 'number') return value
      if (typeof value === 'bigint') return BigInt(Number(value)) === value ? Number(value) : none()
      return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : none()
    default:
      return none()
  }
}

function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length
  if (typeName(value) === 'string') return [...String(value)].length
  return isMap(value) ? Object.keys(value).length : none()
}

function method(fn: string, receiver: Node, args: Node[], variables: Variables): unknown {
  const value = referenceValue(receiver, variables)
  const [first, second] = args as [Node, Node]
  if (['all', 'exists', 'exists_one', 'filter', 'map'].includes(fn)) {
    const items: unknown[] = Array.isArray(value) ? value : isMap(value) ? Object.keys(value) : none()
    const of = (one: unknown) => referenceValue(second, { ...variables, [first.args as string]: one })
    if (fn === 'all')
      return items.reduce<() => boolean>(
        (all, one) => () => logical(false, [all, () => of(one)]),
        () => true,
      )()
    if (fn === 'exists')
      return items.reduce<() => boolean>(
        (any, one) => () => logical(true, [any, () => of(one)]),
        () => false,
      )()
    if (fn === 'map') return items.map(of)
    const chosen = items.filter((one) => bool(of(one)))
    return fn === 'filter' ? chosen : chosen.length === 1
  }
  const [arg] = args.map((one) => referenceValue(one, variables))
  if (typeName(value) !== 'string' || typeName(arg) !== 'string') return none()
  const [text, part] = [String(value), String(arg)]
  if (fn === 'matches')
    return new RegExp(part.replace('(?i)', ''), part.startsWith('(?i)') ? 'iu' : 'u').test(text)
  return fn === 'contains'
    ? text.includes(part)
    : fn === 'startsWith'
      ? text.startsWith(part)
      : text.endsWith(part)
}

/** The tree of an expression, which was checked elsewhere. */
export function treeOf(source: string): Node {
  const env = new Environment({ unlistedVariablesAreDyn: true })
  return env.parse(source).ast as Node
}

/** What the library itself makes of an expression; undefined if it has no value there. */
export function libraryValue(source: string, variables: Variables): unknown {
  try {
    return new Environment({ unlistedVariablesAreDyn: true }).evaluate(source, variables)
  } catch {
    return undefined
  }
}
