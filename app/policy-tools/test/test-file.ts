// The file of a policy's tests: its format, and what is wrong in it, with line and column.
import { isErrorCode, reasons as knownReasons } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { parseReference, ReferenceInputError } from '@svc/core/match'
import {
  type Diagnostic,
  type Locate,
  mistakeAt,
  nearest,
  readDocument,
  unknownServer,
} from '@svc/core/policy'
import { z } from 'zod'
import type { At } from '../judge/clock.js'
import type { Answers } from '../judge/stages.js'
import { type TestCaller, testCallerOf } from './test-caller.js'

const claims = z.record(z.string(), z.unknown()).describe('The claims of a token of the issuer.')

const identity = z
  .strictObject({
    tenant: z.string().min(1),
    user: z.string().min(1).optional(),
    userId: z.string().min(1).optional(),
    clientId: z.string().min(1).optional(),
    nodeId: z.string().min(1).optional(),
    roles: z.array(z.string()).optional(),
    scopes: z.array(z.string()).optional(),
  })
  .describe('A caller that a program vouches for, as in `governed`.')

const caller = z
  .union([
    z.string().min(1).describe('a name in `callers`, or a token'),
    claims,
    z.strictObject({ identity }),
  ])
  .describe(
    'The caller: claims of a token, a token, or `identity`. Without one the call has no token. The signature of a token is not checked.',
  )

const at = z
  .string()
  .refine(
    (text) => isRelative(text) || (/T.*(?:Z|[+-]\d\d:\d\d)$/.test(text) && !Number.isNaN(Date.parse(text))),
    {
      message:
        'expected a time with its zone such as 2026-01-01T12:00:00Z, or a time after the call before such as +2s',
    },
  )
  .describe('When the call comes: a time, or `+2s` after the call before. Default: 2026-01-01T12:00:00Z.')

const headers = z.record(z.string(), z.string()).describe('Request headers, such as `x-node-id`.')

const call = {
  call: z
    .string()
    .min(1)
    .describe(
      'What is called: `server/tool@version`, `server/prompts/NAME@version` or `server/resources/URI@version`; without a version it is unversioned.',
    ),
  arguments: z.record(z.string(), z.unknown()).default({}).describe('The arguments.'),
  idempotency_key: z.string().min(1).optional().describe('The idempotency key of the call.'),
  times: z
    .int()
    .min(1)
    .max(100_000)
    .default(1)
    .describe('How often it is called, each with the same result.'),
  answers: z
    .record(z.string(), z.enum(['allow', 'deny', 'escalate', 'clarify']))
    .default({})
    .describe(
      'What stages that would ask others are taken to decide, by section, such as `runtime: deny`. Without it such a decision is unknown.',
    ),
  expect: z
    .enum(['allow', 'deny', 'confirm', 'escalate'])
    .describe(
      'The decision that the policy has to make; `confirm` is that of an MCP client which shows forms.',
    ),
  reason: z
    .string()
    .min(1)
    .optional()
    .describe(
      'The reason of the decision: a reason token, an error code such as RATE_LIMITED, or `replay` for the response of an earlier call with the same key.',
    ),
}

const circumstances = { who: caller.optional(), at: at.optional(), headers: headers.optional() }
const name = z.string().min(1).describe('The statement that the case tests.')

const testFileSchema = z
  .strictObject({
    policy: z
      .string()
      .min(1)
      .optional()
      .describe('The policy, from the directory of this file. Default: NAME.yaml beside NAME.test.yaml.'),
    callers: z.record(z.string(), caller).default({}).describe('Callers by name, for `who`.'),
    at: at.optional(),
    cases: z
      .array(
        z.union([
          z.strictObject({ name, ...circumstances, ...call }),
          z.strictObject({
            name,
            ...circumstances,
            calls: z
              .array(z.strictObject({ ...circumstances, ...call }))
              .min(1)
              .describe('Calls one after the other, which count against the same limits and keys.'),
          }),
        ]),
      )
      .min(1)
      .describe('Each case begins with unused limits and keys.'),
  })
  .describe('Tests of a policy.')

export function testFileJsonSchema(): object {
  return z.toJSONSchema(testFileSchema, { io: 'input', unrepresentable: 'any' })
}

type ParsedFile = z.output<typeof testFileSchema>
type ParsedCase = ParsedFile['cases'][number]
type ParsedCall = Extract<ParsedCase, { calls: unknown }>['calls'][number]

export interface TestCall {
  readonly line: number | undefined
  readonly subject: CalledSubject
  readonly args: JsonObject
  readonly idempotencyKey: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly caller: TestCaller | undefined
  readonly at: At | undefined
  readonly times: number
  readonly expect: ParsedCall['expect']
  readonly reason: string | undefined
  /** What stages that ask others are taken to decide, by section. */
  readonly answers: Answers
}

export interface TestCase {
  readonly name: string
  readonly line: number | undefined
  readonly at: At | undefined
  readonly calls: readonly TestCall[]
}

/** The names that the policy under test knows, to report misspelled ones. */
export interface PolicyNames {
  /** Empty if the policy has no targets, as in a program of one's own. */
  readonly servers: readonly string[]
  /** Reason tokens of its plugins. */
  readonly reasons: readonly string[]
}

interface ReadFile {
  readonly policy: string | undefined
  readonly mistakes: readonly Diagnostic[]
  /** The cases, and the mistakes that only the policy shows. */
  casesFor(names: PolicyNames): {
    readonly cases: readonly TestCase[]
    readonly mistakes: readonly Diagnostic[]
  }
}

/** Never throws for any text. */
export function readTestFile(
  text: string,
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): ReadFile {
  const { value, mistakes, locate } = readDocument(text, file, testFileSchema, env)
  return {
    policy: value?.policy,
    mistakes,
    casesFor(names) {
      if (value === undefined) return { cases: [], mistakes: [] }
      const reader = new CaseReader(value, locate, names)
      return { cases: value.cases.map((one, index) => reader.read(one, index)), mistakes: reader.mistakes }
    },
  }
}

type Path = readonly (string | number)[]

class CaseReader {
  readonly mistakes: Diagnostic[] = []
  readonly #file: ParsedFile
  readonly #locate: Locate
  readonly #names: PolicyNames

  constructor(file: ParsedFile, locate: Locate, names: PolicyNames) {
    this.#file = file
    this.#locate = locate
    this.#names = names
  }

  read(one: ParsedCase, index: number): TestCase {
    const path = ['cases', index]
    const { line } = this.#locate(path).origin
    const start = one.at ?? this.#file.at
    const calls =
      'calls' in one
        ? one.calls.map((call, i) =>
            this.#call(
              [...path, 'calls', i],
              call,
              { ...call, headers: { ...one.headers, ...call.headers } },
              one.who,
            ),
          )
        : [this.#call(path, one, { ...one, at: undefined }, undefined)]
    return { name: one.name, line, at: start === undefined ? undefined : atOf(start), calls }
  }

  #call(
    path: Path,
    call: Omit<ParsedCall, 'at'>,
    { at, headers }: Pick<ParsedCall, 'at' | 'headers'>,
    ofCase: ParsedCall['who'],
  ): TestCall {
    const who = call.who ?? ofCase
    const whoPath = call.who === undefined ? path.slice(0, 2) : path
    if (call.reason !== undefined) this.#checkReason([...path, 'reason'], call.reason)
    return {
      line: this.#locate(path).origin.line,
      subject: this.#subject([...path, 'call'], call.call),
      args: call.arguments as JsonObject,
      idempotencyKey: call.idempotency_key ?? null,
      headers: lowerCased(headers),
      caller: who === undefined ? undefined : this.#caller([...whoPath, 'who'], who),
      at: at === undefined ? undefined : atOf(at),
      times: call.times,
      expect: call.expect,
      reason: call.reason,
      answers: call.answers,
    }
  }

  #subject(path: Path, text: string): CalledSubject {
    try {
      if (!text.includes('/')) throw new ReferenceInputError('not_a_reference', 'the server is missing')
      const subject = subjectOf(text)
      const { servers } = this.#names
      const unknown = servers.length === 0 ? undefined : unknownServer(subject.server, servers)
      if (unknown !== undefined) this.#mistake(path, unknown)
      return subject
    } catch (error) {
      if (!(error instanceof ReferenceInputError)) throw error
      this.#mistake(path, `${error.message}; expected server/tool@version`)
      return { kind: 'tool', server: '', name: '', version: '' }
    }
  }

  #caller(path: Path, who: NonNullable<ParsedCall['who']>): TestCaller | undefined {
    const { callers } = this.#file
    const named = typeof who === 'string' && Object.hasOwn(callers, who) ? callers[who] : undefined
    const found = testCallerOf(named ?? who)
    if (found !== undefined) return found
    const names = Object.keys(callers)
    const meant = nearest(String(who), names)
    const hint = meant === undefined ? '' : `did you mean "${meant}"? `
    const known = names.join(', ') || 'none'
    this.#mistake(path, `neither a token nor a name in callers; ${hint}known: ${known}`)
    return undefined
  }

  #checkReason(path: Path, reason: string): void {
    if (isErrorCode(reason) || reason.startsWith('rule:')) return
    const known = [...knownReasons, ...this.#names.reasons, REPLAY, ...tokenReasons]
    if (known.includes(reason)) return
    const meant = nearest(reason, known)
    this.#mistake(
      path,
      `no stage reports "${reason}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`,
    )
  }

  #mistake(path: Path, message: string): void {
    const { origin, path: written } = this.#locate(path)
    this.mistakes.push(mistakeAt(origin, written, message))
  }
}

/** The reason of a call that got the response of an earlier one. */
export const REPLAY = 'replay'

/** Of a token that lacks a scope (RFC 6750 §3.1), or that is no bearer token whose claims can be read. */
const tokenReasons = ['insufficient_scope', 'claim_unusable', 'proof_required', 'wrong_token_type']

export interface CalledSubject {
  readonly kind: 'tool' | 'prompt' | 'resource'
  readonly server: string
  readonly name: string
  readonly version: string
}

/** @throws {ReferenceInputError} */
function subjectOf(text: string): CalledSubject {
  const whole = text.startsWith('mcp://') ? text : `mcp://${text}`
  const parts = parseReference(whole.includes('@') ? whole : `${whole}@unversioned`)
  const { server, version } = parts
  if ('tool' in parts) return { kind: 'tool', server, name: parts.tool, version }
  if ('prompt' in parts) return { kind: 'prompt', server, name: parts.prompt, version }
  return { kind: 'resource', server, name: parts.resource, version }
}

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

const relative = /^\+(\d+)(ms|s|m|h|d)$/

function isRelative(text: string): boolean {
  return relative.test(text)
}

function atOf(text: string): At {
  const [, count, unit] = relative.exec(text) ?? []
  if (count === undefined || unit === undefined) return { time: Date.parse(text) }
  return { after: Number(count) * units[unit as keyof typeof units] }
}

function lowerCased(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}
