// Judges the arguments of tools by the schemas that callers were served.
import {
  after,
  type Call,
  type CallRequest,
  type Clock,
  identity,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  principalKeyOf,
  resolve,
  resolveOptional,
  type Stage,
  servedDefinition,
  tokens,
} from '@svc/core'
import { isJsonObject, parseExactObject } from '@svc/core/json'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import { BoundedMap } from '@svc/core/store'
import { defineProtection } from '../shared/protection.js'
import { type SchemaConfig, type SchemaEffect, schemaConfig, schemaSchema } from './config.js'
import {
  type DigestedSchema,
  digested,
  type SchemaResult,
  SchemaThread,
  type SchemaUser,
} from './schema-thread.js'

const schemaReasons = ['arguments_invalid', 'arguments_unchecked'] as const

/** Schemas that are kept by the hash of their definition. */
const maxKept = 2_000
const maxPointer = 200

const strictness: readonly SchemaEffect[] = ['off', 'report', 'enforce']

class SchemaStage implements Stage {
  #config: SchemaConfig
  #tools: PatternMap<SchemaEffect>
  #meter: Meter | undefined
  #thread: SchemaThread
  #schemas = new BoundedMap<string, DigestedSchema>(maxKept)

  constructor(config: SchemaConfig, clock: Clock, meter: Meter | undefined) {
    this.#config = config
    this.#tools = compilePatternMap(config.tools)
    this.#thread = new SchemaThread(clock)
    this.#meter = meter
  }

  stop(): Promise<void> {
    return this.#thread.close()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return after(call.request(), (request) => {
      const effect = request.kind === 'tool' ? this.#effectOn(request) : 'off'
      if (call.isNoted) call.note(`schema: ${effect}`)
      return effect === 'off' ? next() : after(this.#judge(call, request, effect), next)
    })
  }

  /** The strictest of those by which the call may be read. */
  #effectOn({ readings }: CallRequest): SchemaEffect {
    const found = this.#tools.lookup(readings).map((matches) => matches[0]?.value ?? this.#config.default)
    return strictness.findLast((effect) => found.includes(effect)) ?? this.#config.default
  }

  async #judge(call: Call, request: CallRequest, effect: SchemaEffect): Promise<void> {
    this.#meter?.count('svc_schema_checks_total')
    const result = await this.#check(call, request)
    if (result.kind === 'fits') return
    this.#meter?.count('svc_schema_findings_total')
    const isMismatch = result.kind === 'mismatch'
    call.addFinding({
      reason: isMismatch ? 'arguments_invalid' : 'arguments_unchecked',
      stage: 'protections',
      level: 'tool',
      ruling: effect === 'enforce' ? 'deny' : 'report',
      detail: isMismatch
        ? `arguments${result.pointer.slice(0, maxPointer)}: ${result.keyword}`
        : `the arguments cannot be checked: ${result.reason}`,
    })
  }

  /** They fit if they fit one of the schemas. */
  async #check(call: Call, { args }: CallRequest): Promise<SchemaResult> {
    const served = call.get(servedDefinition)
    // A tool without MCP has no definition.
    if (served === undefined) return { kind: 'fits' }
    let result: SchemaResult = { kind: 'unchecked', reason: 'no definition of the tool is known' }
    for (const sha256 of served.judging) {
      const schema = this.#schemas.get(sha256) ?? this.#keep(sha256, await served.text(sha256))
      if (schema === undefined) continue
      const checked = await this.#thread.check(schema, args, userOf(call))
      if (checked.kind === 'fits') return checked
      result = checked
    }
    return result
  }

  /** The schema in a definition; one without a schema takes any arguments. A boolean is one (JSON Schema 2020-12). */
  #keep(sha256: string, text: string | undefined): DigestedSchema | undefined {
    const definition = text === undefined ? undefined : parseExactObject(text)
    if (definition === undefined) return undefined
    const { inputSchema } = definition
    // An array, for example, is not a schema, and is refused as one.
    const given = inputSchema === undefined || inputSchema === true ? {} : { allOf: [inputSchema] }
    const schema = digested((isJsonObject(inputSchema) ? inputSchema : given) as DigestedSchema['schema'])
    this.#schemas.set(sha256, schema)
    return schema
  }
}

/** Who causes the work of a check. */
export function userOf(call: Call): SchemaUser {
  const caller = call.get(identity)
  return { caller: caller === undefined ? '' : principalKeyOf(caller), server: call.target.server }
}

/** The protection `schema`: the arguments of tools against the schemas of their pinned definitions. */
export const schemaProtection = defineProtection({
  schema: schemaSchema,
  reasons: schemaReasons,
  metrics: {
    svc_schema_checks_total: { kind: 'counter', help: 'Calls whose arguments were checked by a schema.' },
    svc_schema_findings_total: {
      kind: 'counter',
      help: 'Calls whose arguments did not fit their schema, or could not be checked.',
    },
  },
  configure(settings, preset) {
    const config = schemaConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      create: ({ container }) =>
        new SchemaStage(config, resolve(container, tokens.Clock), resolveOptional(container, tokens.Meter)),
    }
  },
})
