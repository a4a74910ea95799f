// Judges a JSON Schema of a server before it is compiled. Compilers recurse into it, and validators follow its references, so
// its size, depth, branches and references are limited, and the work for one value is.
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from '@svc/core/json'

const maxBytes = 65_536
const maxDepth = 40
const maxValues = 10_000
/** Schemas that are tried for one place of a value; those behind references count each time. */
const maxBranches = 200

/** Keywords by the form of their value: one schema, schemas in a list, schemas by name. */
const keywords = {
  one: [
    ...['not', 'if', 'then', 'else', 'items', 'additionalItems', 'additionalProperties', 'contains'],
    ...['propertyNames', 'unevaluatedItems', 'unevaluatedProperties'],
  ],
  list: ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items'],
  named: ['properties', 'patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions'],
} as const

/** Keywords whose schemas judge the same place of a value. */
const inPlace: ReadonlySet<string> = new Set([
  ...['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentSchemas', 'dependencies'],
])

/**
 * Members that move the base of references, or point elsewhere than `$ref` does; and those that no dialect of JSON Schema has
 * and the validator gives a meaning of its own: `$async` makes its result a promise, `$data` takes the value of a keyword from
 * the arguments.
 */
const refused = [
  ...['$dynamicRef', '$recursiveRef', '$anchor', '$dynamicAnchor', '$recursiveAnchor'],
  ...['$async', '$data'],
]

/** Why the schema is not compiled; undefined for one that is. */
export function schemaProblem(schema: JsonObject): string | undefined {
  return sizeProblem(schema) ?? new References(schema).problem()
}

function sizeProblem(schema: JsonObject): string | undefined {
  let values = 0
  let level: readonly JsonValue[] = [schema]
  for (let depth = 1; level.length > 0; depth++) {
    values += level.length
    if (depth > maxDepth) return `it is deeper than ${maxDepth} levels`
    if (values > maxValues) return `it has more than ${maxValues} values`
    level = level.flatMap((value) =>
      Array.isArray(value) || isJsonObject(value) ? Object.values<JsonValue>(value) : [],
    )
  }
  const bytes = Buffer.byteLength(stringifyJson(schema))
  return bytes > maxBytes ? `it has more than ${maxBytes} bytes` : undefined
}

class References {
  #root: JsonObject
  /** The branches of a schema; undefined while they are counted. */
  #branches = new Map<JsonObject, number | undefined>()

  constructor(root: JsonObject) {
    this.#root = root
  }

  /** A reference may point to a member that no keyword makes a schema. */
  problem(): string | undefined {
    const schemas = new Set([this.#root])
    for (const schema of schemas) {
      const found = this.#problemOf(schema)
      if (found !== undefined) return found
      for (const [, child] of childrenOf(schema)) schemas.add(child)
      const { $ref } = schema
      const target = $ref === undefined ? undefined : this.#target($ref)
      if (isJsonObject(target)) schemas.add(target)
    }
    return undefined
  }

  #problemOf(schema: JsonObject): string | undefined {
    const { $ref, $id } = schema
    if ($id !== undefined && schema !== this.#root) return '$id changes the base of its references'
    const other = refused.find((name) => Object.hasOwn(schema, name))
    if (other !== undefined) return `${other} is not supported`
    if (hasDataReference(schema)) return 'a keyword refers to the arguments by $data'
    if ($ref !== undefined && this.#target($ref) === undefined)
      return 'a $ref does not point to a schema within the document'
    const branches = this.#branchesOf(schema)
    if (branches === undefined) return 'a $ref leads back to itself'
    return branches > maxBranches ? `it has more than ${maxBranches} branches for one value` : undefined
  }

  /** Undefined for a cycle that never moves on in the value. */
  #branchesOf(schema: JsonObject): number | undefined {
    if (this.#branches.has(schema)) return this.#branches.get(schema)
    this.#branches.set(schema, undefined)
    const { $ref } = schema
    const target = $ref === undefined ? undefined : this.#target($ref)
    const children = childrenOf(schema).flatMap(([keyword, child]) => (inPlace.has(keyword) ? [child] : []))
    let branches = 1
    for (const child of isJsonObject(target) ? [...children, target] : children) {
      const more = this.#branchesOf(child)
      if (more === undefined) return undefined
      // Enough is known, and the sum of doubled references would not stay exact.
      branches = Math.min(branches + more, maxBranches + 1)
    }
    this.#branches.set(schema, branches)
    return branches
  }

  #target(reference: JsonValue): JsonValue | undefined {
    if (typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference)) return undefined
    let at: JsonValue | undefined = this.#root
    for (const part of reference.slice(1).split('/').slice(1)) {
      const name = decoded(part)
      if (name === undefined || typeof at !== 'object' || at === null) return undefined
      at = Object.hasOwn(at, name) ? (at as JsonObject)[name] : undefined
    }
    return isJsonObject(at) || typeof at === 'boolean' ? at : undefined
  }
}

/** Members of an object of schemas by name are names, whatever they are. */
function hasDataReference(schema: JsonObject): boolean {
  return Object.entries(schema).some(
    ([keyword, value]) =>
      isJsonObject(value) && Object.hasOwn(value, '$data') && !isOne(keywords.named, keyword),
  )
}

/** The name in a part of a JSON pointer (RFC 6901) in a fragment; undefined for a wrong escape. */
function decoded(part: string): string | undefined {
  if (/%(?![0-9a-fA-F]{2})|~(?![01])/.test(part)) return undefined
  const bytes = part.replaceAll(/(?:%[0-9a-fA-F]{2})+/g, (escapes) =>
    Buffer.from(escapes.replaceAll('%', ''), 'hex').toString(),
  )
  return bytes.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** The schemas of which a schema consists, with their keywords. */
function childrenOf(schema: JsonObject): [keyword: string, child: JsonObject][] {
  const found: [string, JsonObject][] = []
  const add = (keyword: string, values: readonly (JsonValue | undefined)[]): void => {
    for (const value of values) if (isJsonObject(value)) found.push([keyword, value])
  }
  for (const keyword of keywords.one) add(keyword, [schema[keyword]])
  for (const keyword of keywords.list) {
    const list = schema[keyword]
    if (Array.isArray(list)) add(keyword, list)
  }
  for (const keyword of keywords.named) {
    const named = schema[keyword]
    if (isJsonObject(named)) add(keyword, Object.values(named))
  }
  return found
}

/** The schema with others in place of those of which it consists. */
export function withSchemas(schema: JsonObject, change: (child: JsonObject) => JsonObject): JsonObject {
  const one = (value: JsonValue): JsonValue => (isJsonObject(value) ? change(value) : value)
  const kept = Object.entries(schema).map(([name, value]): [string, JsonValue] => {
    if (Array.isArray(value)) return [name, isOne(keywords.list, name) ? value.map(one) : value]
    if (!isJsonObject(value)) return [name, value]
    if (isOne(keywords.one, name)) return [name, change(value)]
    if (!isOne(keywords.named, name)) return [name, value]
    return [name, Object.fromEntries(Object.entries(value).map(([member, inner]) => [member, one(inner)]))]
  })
  return Object.fromEntries(kept)
}

function isOne(names: readonly string[], name: string): boolean {
  return names.includes(name)
}
