// The variables of expressions and their types, for the library's type checker.
import { Environment, type ObjectSchema } from '@marcbachmann/cel-js'
import type { JsonObject } from '@svc/core/json'

/** CEL's name of a type, or the members of a record. */
export type DeclaredType = string | { readonly [member: string]: DeclaredType }

const records = {
  caller: {
    sub: 'string',
    tenant: 'string',
    client: 'string',
    roles: 'list<string>',
    scopes: 'list<string>',
  },
  claimed: { agent: 'string', node: 'string', parent: 'string' },
  tool: {
    server: 'string',
    name: 'string',
    version: 'string',
    annotations: 'map<string, bool>',
    side_effecting: 'bool',
  },
  call: { time: 'google.protobuf.Timestamp', protocol: 'string', method: 'string' },
} as const

export type DeclaredFields = ReadonlyMap<string, readonly string[]>

const recordNames = [...Object.keys(records), 'vars']

export function isRecord(name: string): name is keyof typeof records | 'vars' {
  return recordNames.includes(name)
}

export function fieldsOf(vars: Readonly<Record<string, unknown>>): DeclaredFields {
  return new Map(
    [...Object.entries(records), ['vars', vars] as const].map(([name, type]) => [name, Object.keys(type)]),
  )
}

/** Nodes, and the depth, of an expression. */
const limits = {
  maxAstNodes: 200,
  maxDepth: 24,
  maxListElements: 100,
  maxMapEntries: 100,
  maxCallArguments: 4,
}

/** An environment for parsing and checking; nothing is evaluated in it. */
export function environment(vars: Readonly<Record<string, DeclaredType>>, args: DeclaredType): Environment {
  const env = new Environment({ limits })
  const unused = () => false
  for (const operator of ['+', '-', '*', '/', '%']) {
    env.registerOperator(`int ${operator} double: double`, unused)
    env.registerOperator(`double ${operator} int: double`, unused)
  }
  env.registerOperator('double % double: double', unused)
  env.registerVariable('params', 'map<string, dyn>')
  declare(env, 'args', args)
  for (const [name, type] of Object.entries({ ...records, vars })) declare(env, name, type)
  return env
}

function declare(env: Environment, name: string, type: DeclaredType): void {
  if (typeof type === 'string') env.registerVariable(name, type)
  else env.registerVariable({ name, schema: type as ObjectSchema })
}

/** The type of a value of `vars`. Lists of numbers are not typed, as a literal int is not in a list of doubles. */
export function typeOfVar(value: unknown): string {
  if (Array.isArray(value))
    return value.every((item) => typeof item === 'string') ? 'list<string>' : 'list<dyn>'
  return typeof value === 'string' ? 'string' : typeof value === 'boolean' ? 'bool' : 'double'
}

const MAX_SCHEMA_DEPTH = 5
const scalars: ReadonlyMap<unknown, string> = new Map([
  ['string', 'string'],
  ['boolean', 'bool'],
  ['number', 'double'],
  ['integer', 'double'],
])

/**
 * The type of the arguments by a tool's schema; what JSON Schema says in other ways is not checked. An object is a record
 * only if it has no further members.
 */
export function typeOfSchema(schema: unknown, depth = 0): DeclaredType {
  const { type, properties, items, additionalProperties } = asObject(schema)
  const scalar = scalars.get(type)
  if (scalar !== undefined) return scalar
  if (type === 'array') {
    const item = typeOfSchema(items, depth + 1)
    return typeof item === 'string' && scalars.size > 0 && item !== 'double' && item !== 'dyn'
      ? `list<${item}>`
      : 'list<dyn>'
  }
  const isClosed = additionalProperties === false || depth === 0
  if (
    (type === 'object' || depth === 0) &&
    isClosed &&
    depth < MAX_SCHEMA_DEPTH &&
    properties !== undefined
  ) {
    const members = Object.entries(asObject(properties))
    if (members.length > 0) {
      return Object.fromEntries(members.map(([name, member]) => [name, typeOfSchema(member, depth + 1)]))
    }
  }
  return type === 'object' || depth === 0 ? 'map<string, dyn>' : 'dyn'
}

/** Whether the schema requires every member of the path below `args`. */
export function isRequired(schema: unknown, names: readonly (string | number)[]): boolean {
  const [name, ...inner] = names
  if (name === undefined) return true
  const { required, properties } = asObject(schema)
  if (typeof name !== 'string' || !Array.isArray(required) || !required.includes(name)) return false
  return isRequired(asObject(properties)[name], inner)
}

function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
}
