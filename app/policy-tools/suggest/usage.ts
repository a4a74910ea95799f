// Reads recorded calls for `svc policy suggest`: what the policy has to allow, and which callers are new.
import { isPending, isUnrecorded, type Narrowing, resolveOptional, services } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { stricter } from '../judge/judge.js'
import type { PolicyJudge } from '../replay/policy-judge.js'
import { isCall, isEmergency, verdictOf } from '../replay/recorded-verdict.js'
import { callerName, toolOf } from '../replay/replay.js'

const DAY_MS = 86_400_000
const NEW_FOR_MS = 7 * DAY_MS
const MAX_TOOLS = 10_000

export interface NewCaller {
  /** The tenant and the name. */
  readonly caller: string
  readonly first: string
  readonly calls: number
  /** Tools that no other caller has used. */
  readonly ownTools: readonly string[]
}

interface CallerUse {
  first: string
  calls: number
  readonly tools: Set<string>
}

export class Usage {
  readonly #judge: PolicyJudge
  readonly narrowing: Narrowing | undefined
  /** Milliseconds since the epoch; calls before count as last uses alone. */
  readonly #from: number
  readonly #callers = new Map<string, CallerUse>()
  #first: number | undefined
  #last = 0
  learned = 0

  constructor(judge: PolicyJudge, from: string | undefined) {
    this.#judge = judge
    this.#from = from === undefined ? Number.NEGATIVE_INFINITY : Date.parse(from)
    this.narrowing = resolveOptional(judge.policy.container, services.narrowing)?.()
  }

  /** Days that the calls span from `--from` on. */
  get days(): number {
    return this.#first === undefined ? 0 : (this.#last - this.#first) / DAY_MS
  }

  isRecent({ ts }: SignedEnvelope): boolean {
    return Date.parse(ts) >= this.#from
  }

  /** Throws if the names of callers in the policy cannot be told, as the log has pseudonyms. */
  async add(record: SignedEnvelope): Promise<void> {
    if (!isCall(record)) return
    const at = Date.parse(record.ts)
    const isRecent = this.isRecent(record)
    if (isRecent) {
      this.#first = Math.min(this.#first ?? at, at)
      this.#last = Math.max(this.#last, at)
    }
    this.#noteCaller(record)
    const learned = learnedDecision(record, this.#judge.later)
    if (learned === undefined) return
    const judged = this.#judge.judge(record)
    const { decision, call } = isPending(judged) ? await judged : judged
    if (stricter(decision, learned) || call === undefined) return
    if (isRecent) this.learned++
    try {
      this.narrowing?.add(call, isRecent)
    } catch (error) {
      if (!isUnrecorded(error)) throw error
      throw new Error(`nothing can be suggested: ${error.facts.join(', ')} is not in the log`)
    }
  }

  /** Callers whose first call is in the last week, if the log is older. */
  newCallers(): NewCaller[] {
    const since = new Date(this.#last - NEW_FOR_MS).toISOString()
    const all = [...this.#callers]
    if (!all.some(([, { first }]) => first < since)) return []
    const users = new Map<string, number>()
    for (const [, { tools }] of all) for (const tool of tools) users.set(tool, (users.get(tool) ?? 0) + 1)
    return all
      .filter(([, { first }]) => first >= since)
      .map(([caller, { first, calls, tools }]) => ({
        caller,
        first,
        calls,
        ownTools: [...tools].filter((tool) => users.get(tool) === 1).sort(),
      }))
      .sort((a, b) => (a.first < b.first ? -1 : 1))
  }

  #noteCaller(record: SignedEnvelope): void {
    const name = callerName(record)
    const use = this.#callers.get(name) ?? { first: record.ts, calls: 0, tools: new Set<string>() }
    this.#callers.set(name, use)
    if (record.ts < use.first) use.first = record.ts
    use.calls++
    if (use.tools.size < MAX_TOOLS) use.tools.add(toolOf(record))
  }
}

/**
 * The decision by which the call was sent; undefined for a call that is not learned from: one that was denied, flagged, run
 * in an emergency or not sent.
 */
export function learnedDecision(
  record: SignedEnvelope,
  later: ReadonlySet<string>,
): 'allow' | 'escalate' | undefined {
  if (!isCall(record) || record.sent === 'no') return undefined
  const { findings = [], escalation_id: approval } = record
  if (findings.some(({ effect }) => approval === undefined || effect !== 'escalate')) return undefined
  if (approval !== undefined) return isEmergency(record) ? undefined : 'escalate'
  return verdictOf(record, later)?.decision === 'allow' ? 'allow' : undefined
}
