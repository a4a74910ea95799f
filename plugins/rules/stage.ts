// Judges each call by the rules that match it, and reports those that have their effect as findings.
import {
  after,
  type Call,
  type CallRequest,
  type Clock,
  callLabels,
  isUnrecorded,
  type KeptValues,
  kept,
  type MaybePromise,
  type Next,
  type Outcome,
  type ReferenceRule,
  recordedCall,
  type SectionEntry,
  type Stage,
} from '@svc/core'
import { JsonNumber } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import {
  CallScope,
  evaluateBounded,
  Failure,
  type ReadPath,
  recordedInput,
  shownValue,
  type Variables,
} from './engine/index.js'
import { judge, possibleFinding, type Rule, type RuleResult, ruleFinding } from './rule.js'
import { keptNames, variablesByReading } from './variables.js'

type Sources = Parameters<typeof variablesByReading>[1]

interface JudgedRule {
  readonly rule: Rule
  readonly result: RuleResult
}

/** The rules that match a reference, and what they keep. */
interface MatchingRules {
  readonly rules: readonly Rule[]
  readonly paths: ReadonlyMap<string, ReadPath>
}

const NO_RULES: MatchingRules = { rules: [], paths: new Map() }

// Callers choose references, so the cache is bounded.
const MAX_CACHED = 256
const MAX_CACHED_LENGTH = 256

const order = ['deny', 'escalate', 'confirm', 'report'] as const

export class RulesStage implements Stage {
  /** Nothing outside the process is asked. */
  readonly effects = 'none'
  #rules: readonly Rule[]
  #sources: Sources
  #clock: Clock
  #isTimed: boolean
  #referenceRule: ReferenceRule | undefined
  readonly #matched = new BoundedMap<string, MatchingRules>(MAX_CACHED)
  readonly #entryOf: ReadonlyMap<Rule, SectionEntry>

  constructor(rules: readonly Rule[], sources: Sources, clock: Clock) {
    this.#rules = rules
    this.#sources = sources
    this.#clock = clock
    this.#isTimed = rules.some(isTimed)
    this.#entryOf = new Map(rules.map((rule, index) => [rule, entryAt(rule, index)]))
    const unconditional = rules.filter(({ kind, then }) => kind === 'always' && then !== 'report')
    if (unconditional.length > 0) {
      // The reference of a server is not one of a tool, prompt or resource, which rules are about.
      this.#referenceRule = (reference, kind) =>
        kind === 'protocol' ? undefined : findingOn(reference, unconditional)
    }
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return after(call.request(), (request) => {
      this.#inspect(call, request)
      return next()
    })
  }

  #inspect(call: Call, request: CallRequest): void {
    if (this.#referenceRule !== undefined) call.addReferenceRule(this.#referenceRule)
    const { rules, paths } = this.#matching(request)
    if (rules.length === 0) {
      call.note('no rule applies to this')
      return
    }
    const { readings, scope } = this.#read(call, request)
    const judged = rules.map((rule) => ({ rule, result: judge(rule, readings, scope) }))
    if (call.isNoted)
      for (const { rule, result } of judged)
        call.note(explainRule(rule, result, readings[0], scope), this.#entryOf.get(rule))
    this.#report(call, judged, { variables: readings[0], scope })
    if (call.get(recordedCall) !== undefined) return
    if (paths.size > 0) call.set(kept, keptValues(paths, readings[0], scope))
    const labels = judged.flatMap(({ rule, result }) => (result.applies ? rule.labels : []))
    if (labels.length > 0) call.set(callLabels, labels)
    if (this.#isTimed) this.#judgeAgain(call, request, judged)
  }

  /** Cached, as callers repeat their calls. */
  #matching({ kind, readings }: CallRequest): MatchingRules {
    if (kind === 'protocol') return NO_RULES
    const [reference = ''] = readings
    const isCached = readings.length === 1 && reference.length <= MAX_CACHED_LENGTH
    const known = isCached ? this.#matched.get(reference) : undefined
    if (known !== undefined) return known
    const rules = this.#rules.filter(
      ({ patterns }) => patterns === undefined || patterns.findReading(readings) !== undefined,
    )
    const matching = { rules, paths: keptPaths(rules) }
    if (isCached) this.#matched.set(reference, matching)
    return matching
  }

  #read(
    call: Call,
    request: CallRequest,
  ): { readings: readonly [Variables, ...Variables[]]; scope: CallScope } {
    const recorded = call.get(recordedCall)
    const input =
      recorded === undefined
        ? { scope: new CallScope(), args: request.args, params: request.params ?? {} }
        : recordedInput(recorded.kept, keptNames)
    const now = this.#clock.now()
    return { readings: variablesByReading({ call, request, input, now }, this.#sources), scope: input.scope }
  }

  /** Deny first, as the first finding gives the code and the reason. */
  #report(
    call: Call,
    judged: readonly JudgedRule[],
    read: { readonly variables: Variables; readonly scope: CallScope },
  ): void {
    for (const then of order) {
      for (const { rule, result } of judged) {
        if (rule.then !== then) continue
        if (result.applies) call.addFinding(ruleFinding(rule, result, read))
        else if (result.missing !== undefined)
          call.addFinding(possibleFinding(rule, result, read.variables.vars))
      }
    }
  }

  /**
   * Directly before the send the rules that read the time are judged again, as a call may have waited. Nobody has approved
   * what they find now.
   */
  #judgeAgain(call: Call, request: CallRequest, judged: readonly JudgedRule[]): void {
    const timed = judged.filter(
      ({ rule, result }) => isTimed(rule) && !result.applies && rule.then !== 'report',
    )
    if (timed.length === 0) return
    call.hold({
      commit: () => {
        const { readings, scope } = this.#read(call, request)
        for (const { rule } of timed) {
          const result = judge(rule, readings, scope)
          if (result.applies) call.addFinding({ ...ruleFinding(rule, result), ruling: 'deny' })
        }
        return undefined
      },
      release: () => undefined,
    })
  }
}

function entryAt({ name }: Rule, index: number): SectionEntry {
  return { kind: 'rule', name, path: ['rules', index] }
}

function isTimed({ expression }: Rule): boolean {
  return expression?.mentions('call.time') === true
}

function keptPaths(rules: readonly Rule[]): ReadonlyMap<string, ReadPath> {
  return new Map(rules.flatMap(({ keep }) => keep.map((read) => [read.path, read] as const)))
}

function findingOn(reference: string, rules: readonly Rule[]) {
  for (const then of order) {
    for (const rule of rules) {
      if (rule.then !== then) continue
      if (rule.patterns !== undefined && rule.patterns.findReading([reference]) === undefined) continue
      return ruleFinding(rule, { value: undefined, error: undefined, applies: true })
    }
  }
  return undefined
}

/** One line: `large-refunds: require args.amount <= 100 -> false, so deny; args.amount = 240`. */
function explainRule(
  { name, kind, source, then, expression }: Rule,
  { value, error, applies }: RuleResult,
  variables: Variables,
  scope: CallScope,
): string {
  const condition =
    source === undefined ? 'always' : `${kind} ${source.replaceAll(/\s+/g, ' ')} -> ${error ?? String(value)}`
  const isUnforeseen = kind === 'when' && !applies
  const reads = (expression?.reads ?? []).map(({ path, evaluate }) => {
    const read = evaluateBounded(evaluate, variables, scope)
    if (isUnrecorded(read)) return `${path}: not recorded`
    if (!(read instanceof Failure)) return `${path} = ${shownValue(read)}`
    if (!read.isAbsent) return `${path}: ${read.message}`
    return `${path} is absent${isUnforeseen ? ', which `when` lets pass: use `require`' : ''}`
  })
  return [`${name}: ${condition}${applies ? `, so ${then}` : ''}`, ...reads].join('; ')
}

const MAX_PATHS = 32
/** Characters of a text that is kept, so that the record of a call stays small. */
const MAX_TEXT = 256

/** Single values as they are; other values, and long texts, are withheld, and their paths say so. */
export function keptValues(
  paths: ReadonlyMap<string, ReadPath>,
  variables: Variables,
  scope: CallScope,
): KeptValues {
  const values: Record<string, string | number | boolean | null> = {}
  const absent: string[] = []
  const withheld: string[] = []
  for (const [path, { evaluate }] of paths) {
    const value =
      Object.keys(values).length < MAX_PATHS ? evaluateBounded(evaluate, variables, scope) : undefined
    if (value instanceof Failure && value.isAbsent) absent.push(path)
    else if (isKept(value)) values[path] = value
    else if (value instanceof JsonNumber) values[path] = value.toJSON()
    else if (value instanceof Date) values[path] = value.toISOString()
    else withheld.push(path)
  }
  return {
    values,
    ...(absent.length === 0 ? {} : { absent }),
    ...(withheld.length === 0 ? {} : { withheld }),
  }
}

function isKept(value: unknown): value is string | number | boolean | null {
  if (typeof value === 'string') return value.length <= MAX_TEXT
  return value === null || typeof value === 'number' || typeof value === 'boolean'
}
