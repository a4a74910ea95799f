// Compiles schemas, and validates values, in a thread of its own: both may take long for a schema or a value that was made
// to, and then the thread is ended.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isJsonObject, type JsonObject, parseJsonText } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { Calls } from '@svc/core/thread'
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { withDoubles, withExactNumbers, withSymbols, writtenKeyword } from './exact-numbers.js'
import { checkable, linearPattern } from './patterns.js'

/** The place at which a value does not fit, and the keyword of the schema that refuses it. */
export interface Mismatch {
  readonly pointer: string
  readonly keyword: string
}

/** The methods of the thread. */
export interface SchemaMethods {
  /** Its reply tells that the thread has loaded its modules. */
  started(): void
  /**
   * Compiles the schema in the text, tries it with an empty object, and keeps it under `digest`; resolves to the milliseconds.
   * Rejects if it is not a schema.
   */
  compile(digest: string, schema: string): Promise<number>
  /** @param value as JSON */
  validate(digest: string, value: string): Promise<ValidatedValue>
}

export interface ValidatedValue {
  /** Null if the value fits; `unknown` if no schema is kept under the digest, `error` if the validator fails. */
  readonly found: Mismatch | 'unknown' | 'error' | null
  /** Milliseconds. */
  readonly ms: number
}

const maxCompiled = 2_000
/** The base of a schema's references, which is removed with it. */
const ID = 'svc:schema'

const linear = (pattern: string) => {
  const compiled = linearPattern(pattern)
  if (compiled === undefined) throw new Error('a pattern was not left out')
  return compiled
}

const options: Options = {
  strict: false,
  logger: false,
  // Formats are annotations, and the patterns of their validators are not linear.
  validateFormats: false,
  addUsedSchema: false,
  inlineRefs: false,
  // A name of Object.prototype is not a member.
  ownProperties: true,
  messages: false,
  // Each schema is checked with doubles in place of its symbols.
  validateSchema: false,
  code: { regExp: Object.assign(linear, { code: 'linear' }) },
}

const draft7 = withExactNumbers(new Ajv(options))
const draft2020 = withExactNumbers(new Ajv2020(options))

const compiled = new BoundedMap<string, ValidateFunction>(maxCompiled)

/** By the dialect that the schema names. Without one it is 2020-12 (MCP), and of older servers draft 7. */
function compile(given: JsonObject): ValidateFunction {
  const { $schema, ...schema } = given
  const isOlder = typeof $schema === 'string' && /\/draft-0[67]\//.test($schema)
  if (isOlder) return compileBy(draft7, schema)
  try {
    return compileBy(draft2020, schema)
  } catch (error) {
    if ($schema !== undefined) throw error
    return compileBy(draft7, schema)
  }
}

function compileBy(ajv: Ajv, schema: JsonObject): ValidateFunction {
  ajv.validateSchema(withDoubles(schema) as JsonObject, true)
  const compiling = { ...(withSymbols(checkable(schema)) as JsonObject), $id: ID }
  try {
    return ajv.compile(compiling)
  } finally {
    ajv.removeSchema(compiling)
  }
}

/** A missing or unknown member is named in the pointer. */
function mismatchOf({ instancePath, keyword, params }: ErrorObject): Mismatch {
  const named: unknown =
    params['missingProperty'] ??
    params['additionalProperty'] ??
    params['unevaluatedProperty'] ??
    params['propertyName']
  if (typeof named !== 'string') return { pointer: instancePath, keyword: writtenKeyword(keyword) }
  return { pointer: `${instancePath}/${named.replaceAll('~', '~0').replaceAll('/', '~1')}`, keyword }
}

const methods: SchemaMethods = {
  started: () => undefined,
  compile(digest, schema) {
    const began = performance.now()
    const given = parseJsonText(schema)
    const validate = compile(isJsonObject(given) ? given : {})
    foundBy(validate, {})
    compiled.set(digest, validate)
    return afterTurn(performance.now() - began)
  },
  validate(digest, value) {
    const began = performance.now()
    const validate = compiled.get(digest)
    const found = validate === undefined ? 'unknown' : foundBy(validate, withSymbols(parseJsonText(value)))
    return afterTurn({ found, ms: performance.now() - began })
  },
}

/** What a step leaves behind, such as a rejected promise, ends the thread before the reply, and so is known to be of this step. */
async function afterTurn<T>(result: T): Promise<T> {
  await nextTurn()
  return result
}

function foundBy(validate: ValidateFunction, value: unknown): ValidatedValue['found'] {
  try {
    const passed: unknown = validate(value)
    if (passed === true) return null
    // Neither passed nor failed, such as a promise.
    if (passed !== false) return 'error'
  } catch {
    // The value is too deep for the stack.
    return 'error'
  }
  const [error] = validate.errors ?? []
  return error === undefined ? { pointer: '', keyword: 'false schema' } : mismatchOf(error)
}

Calls.ofThread({ ...methods })
