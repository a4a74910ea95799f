// Lets callers share a verdict: the stages after the lists of callers run once for all to whom they give the same findings,
// as long as they read nothing of a caller that differs.
import {
  after,
  type Call,
  type CallAgent,
  type CallRequest,
  decidingPattern,
  type Finding,
  type Identity,
  identity,
  isUnrecorded,
  limits,
  type MaybePromise,
  type Next,
  type Stage,
  type TrustedCaller,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { unsent } from '../judge/unsent-call.js'
import type { KnownCaller } from './known-calls.js'

/** Verdicts that are kept at most. */
const MAX_VERDICTS = 100_000

const members = [
  'tenant',
  'authenticated',
  'user',
  'userId',
  'clientId',
  'issuer',
  'subject',
  'client',
  'roles',
  'scopes',
  'nodeId',
  'unit',
] as const satisfies readonly (keyof Identity)[]

type Member = keyof Identity | 'node'

/** A caller who notes which of its members are read. */
export class ReadCaller {
  readonly trusted: TrustedCaller | undefined
  readonly agent: CallAgent
  readonly #caller: KnownCaller
  #reads: Set<Member> | undefined

  constructor(caller: KnownCaller) {
    this.#caller = caller
    const read = (member: Member) => {
      this.#reads?.add(member)
      return this.#valueOf(member)
    }
    const { trusted } = caller
    // The scopes of a recorded caller may throw when they are read.
    this.trusted = trusted && Object.create(trusted, { identity: { value: readIdentity(read) } })
    this.agent = Object.create(caller.agent, { nodeId: { get: () => read('node') } })
  }

  /** Whether the stages before have given the call this caller, or one that reads it. */
  isCallerOf(call: Call): boolean {
    const given = call.get(identity)
    const own = this.trusted?.identity
    if (own === undefined || given === undefined) return false
    return given === own || Object.getPrototypeOf(given) === own
  }

  startReads(): void {
    this.#reads = new Set()
  }

  endReads(): Member[] {
    const reads = [...(this.#reads ?? [])]
    this.#reads = undefined
    return reads
  }

  /** The values of members as one text. */
  textOf(some: readonly Member[]): string {
    if (some.length === 0) return ''
    return JSON.stringify(
      some.map((member) => {
        try {
          return this.#valueOf(member) ?? null
        } catch (error) {
          if (!isUnrecorded(error)) throw error
          return error
        }
      }),
    )
  }

  #valueOf(member: Member): unknown {
    return member === 'node' ? this.#caller.agent.nodeId : this.#caller.trusted?.identity[member]
  }
}

function readIdentity(read: (member: Member) => unknown): Identity {
  const getters = members.map((member) => [member, { get: () => read(member), enumerable: true }] as const)
  return Object.defineProperties({}, Object.fromEntries(getters)) as Identity
}

/** The verdicts on one request after the same findings, by what the stages read of the caller. */
interface Readings<Verdict> {
  readonly reads: readonly Member[]
  readonly verdicts: Map<string, Verdict>
}

/** The call that the stages judge now. */
interface Judged {
  readonly call: CallControl
  readonly caller: ReadCaller
  /** Undefined until the stages have come to the one that shares verdicts. */
  state?: string
}

export class SharedVerdicts<Verdict> {
  /** Ends the call if its verdict is known. It comes after the stage that sets limits. */
  readonly stage: Stage = { effects: 'none', handle: (call, next) => this.#handle(call, next) }
  readonly #byState = new Map<CallRequest, Map<string, Readings<Verdict>[]>>()
  #count = 0
  #judged: Judged | undefined
  #found: Verdict | undefined

  /** The verdict on a call, which `judge` makes if no other call has it. One call is judged after the other. */
  of(call: CallControl, caller: ReadCaller, judge: () => MaybePromise<Verdict>): MaybePromise<Verdict> {
    const judged: Judged = { call, caller }
    this.#judged = judged
    this.#found = undefined
    return after(judge(), (verdict) => {
      this.#judged = undefined
      if (this.#found !== undefined) return this.#found
      if (judged.state !== undefined) this.#add(judged, judged.state, verdict)
      return verdict
    })
  }

  #handle(call: Call, next: Next): ReturnType<Stage['handle']> {
    const judged = this.#judged
    const { parsedRequest } = call
    if (judged?.call !== call || parsedRequest === undefined || !judged.caller.isCallerOf(call)) return next()
    judged.state = stateOf(judged.call)
    for (const { reads, verdicts } of this.#byState.get(parsedRequest)?.get(judged.state) ?? []) {
      this.#found = verdicts.get(judged.caller.textOf(reads))
      if (this.#found !== undefined) return unsent
    }
    judged.caller.startReads()
    return next()
  }

  #add({ call: { parsedRequest }, caller }: Judged, state: string, verdict: Verdict): void {
    const reads = caller.endReads()
    if (parsedRequest === undefined || this.#count >= MAX_VERDICTS) return
    const states = this.#byState.get(parsedRequest) ?? new Map<string, Readings<Verdict>[]>()
    this.#byState.set(parsedRequest, states)
    const readings = states.get(state) ?? []
    states.set(state, readings)
    const isSame = (one: Readings<Verdict>) => String(one.reads) === String(reads)
    const own = readings.find(isSame) ?? { reads, verdicts: new Map<string, Verdict>() }
    if (own.verdicts.size === 0) readings.push(own)
    own.verdicts.set(caller.textOf(reads), verdict)
    this.#count++
  }
}

/** What the stages before have found and set, as one text. It is made for each call. */
function stateOf(call: CallControl): string {
  let text = call.get(decidingPattern) ?? ''
  for (const finding of call.findings) text += textOf(finding)
  for (const finding of call.possibleFindings) text += textOf(finding)
  for (const { key, level, callsPerDay, ratePerSec, burst } of call.get(limits) ?? [])
    text += `\n${level} ${callsPerDay} ${ratePerSec} ${burst} ${key}`
  return text
}

const texts = new WeakMap<Finding, string>()

/** Without the detail, which is for people. */
function textOf(finding: Finding): string {
  let text = texts.get(finding)
  if (text === undefined) {
    text = `\n${JSON.stringify({ ...finding, detail: '' })}`
    texts.set(finding, text)
  }
  return text
}
