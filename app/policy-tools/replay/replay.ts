// Judges recorded calls by a new policy, and by the policies that were in force, and sums up what would change.
import { isPending } from '@svc/core'
import { callerIn, type SignedEnvelope } from '@svc/plugin-audit/log'
import type { CallDecision, PolicyJudgement } from '../judge/judge.js'
import { type Change, changeOf, isLoss, whyChanged } from './change.js'
import { decideOn, type InForce } from './decide.js'
import { type CountedCall, estimateLimits, type LimitEstimate } from './limit-estimate.js'
import type { PolicyJudge } from './policy-judge.js'
import { isCall, type RecordedVerdict, verdictOf } from './recorded-verdict.js'

/** One call whose decision changes, or may. */
export interface ChangedCall {
  readonly ts: string
  readonly trace_id: string
  /** `<server>/<tool>`. */
  readonly tool: string
  readonly caller: string
  readonly change: Change
  readonly was: CallDecision
  readonly why: string
}

export interface ChangeGroup {
  readonly change: Change
  readonly tool: string
  readonly why: string
  readonly calls: number
  readonly callers: number
  /** The days of the first and the last of the calls. */
  readonly first: string
  readonly last: string
}

export interface ReplayResult {
  readonly judged: number
  readonly same: number
  readonly groups: readonly ChangeGroup[]
  /** How many calls were recorded under each policy, by its hash. */
  readonly policies: ReadonlyMap<string, number>
  /** The policy of the call that came last. */
  readonly latestPolicy: string | undefined
  readonly fidelity: {
    /** Calls that the policy in force decides alike now. */
    readonly repeated: number
    /** The calls among these for which it repeats the earlier findings, because not all was recorded. */
    readonly byFindings: number
    /** Calls that it decides now. */
    readonly decided: number
    /** The first calls that it decides in another way. */
    readonly others: readonly ChangedCall[]
  }
  /** Calls that no policy judged, by the error of their record. */
  readonly notJudged: ReadonlyMap<string, number>
  readonly estimate: LimitEstimate | undefined
  /** Whether calls that were allowed are not, or may not be. */
  readonly hasLosses: boolean
}

interface Group {
  calls: number
  readonly callers: Set<string>
  first: string
  last: string
}

interface ReplaySettings {
  readonly now: PolicyJudge
  /** The judge of the policy with this hash; undefined if the policy is not known. */
  inForce(sha256: string): Promise<PolicyJudge | undefined>
  /** Called for each call whose decision is not the same. */
  onChange?(call: ChangedCall): void
}

const MAX_CALLERS = 100_000
const MAX_OTHERS = 20

export class Replay {
  readonly #settings: ReplaySettings
  readonly #judges = new Map<string, PolicyJudge | undefined>()
  readonly #groups = new Map<string, Group & Pick<ChangeGroup, 'change' | 'tool' | 'why'>>()
  readonly #policies = new Map<string, number>()
  readonly #notJudged = new Map<string, number>()
  readonly #counted: CountedCall[] = []
  readonly #others: ChangedCall[] = []
  #judged = 0
  #same = 0
  #repeated = 0
  #byFindings = 0
  #decided = 0
  #hasLosses = false
  #latest: { readonly ts: string; readonly sha256: string } | undefined

  constructor(settings: ReplaySettings) {
    this.#settings = settings
  }

  /** Records of events are passed over. */
  async add(record: SignedEnvelope): Promise<void> {
    if (!isCall(record)) return
    const { now } = this.#settings
    const recorded = verdictOf(record, now.later)
    if (recorded === undefined) {
      increment(this.#notJudged, record.error ?? 'unknown')
      return
    }
    const inForce = await this.#inForce(record, recorded)
    const judged = now.judge(record)
    const judgement = isPending(judged) ? await judged : judged
    const isSame = inForce?.judgement !== undefined && now.policy.sha256 === record.policy_sha256
    const decided = decideOn(judgement, recorded, inForce && { ...inForce, isSame })
    const change = changeOf(recorded, decided)
    this.#judged++
    if (decided.least === 'allow') this.#count(record, judgement)
    if (change === 'same') {
      this.#same++
      return
    }
    this.#hasLosses ||= isLoss(recorded, change)
    this.#change(record, recorded, change, whyChanged(recorded, decided, change))
  }

  async finish(): Promise<ReplayResult> {
    const groups = [...this.#groups.values()].map(({ callers, ...group }) => ({
      ...group,
      callers: callers.size,
    }))
    return {
      judged: this.#judged,
      same: this.#same,
      groups: groups.sort((a, b) => b.calls - a.calls),
      policies: this.#policies,
      latestPolicy: this.#latest?.sha256,
      fidelity: {
        repeated: this.#repeated,
        byFindings: this.#byFindings,
        decided: this.#decided,
        others: this.#others,
      },
      notJudged: this.#notJudged,
      estimate:
        this.#counted.length === 0
          ? undefined
          : await estimateLimits(this.#counted, this.#settings.now.judging),
      hasLosses: this.#hasLosses,
    }
  }

  /** The judgement by the policy in force, which is compared with the record. */
  async #inForce(record: SignedEnvelope, recorded: RecordedVerdict): Promise<InForce | undefined> {
    const { policy_sha256: sha256 } = record
    if (sha256 === undefined) return undefined
    increment(this.#policies, sha256)
    if (this.#latest === undefined || record.ts > this.#latest.ts) this.#latest = { ts: record.ts, sha256 }
    if (!this.#judges.has(sha256)) this.#judges.set(sha256, await this.#settings.inForce(sha256))
    const judge = this.#judges.get(sha256)
    if (judge === undefined) return undefined
    const judgement = await judge.judge(record)
    const decided = decideOn(judgement, recorded, { judgement, isSame: true })
    const { least, most, isRepeated } = decided
    if (least === most) {
      this.#decided++
      if (least === recorded.decision) {
        this.#repeated++
        if (isRepeated) this.#byFindings++
      } else if (this.#others.length < MAX_OTHERS) {
        const change = changeOf(recorded, decided)
        this.#others.push(changedCall(record, recorded, change, whyChanged(recorded, decided, change)))
      }
    }
    return { judgement, isSame: false }
  }

  #count({ ts, tenant, error, dedupe, server, tool }: SignedEnvelope, { limits }: PolicyJudgement): void {
    if (limits.length === 0 || dedupe === 'replay' || dedupe === 'duplicate') return
    const wasRefused = error === 'RATE_LIMITED' || error === 'QUOTA_EXCEEDED'
    this.#counted.push({ at: Date.parse(ts), tenant, tool: toolOf({ server, tool }), limits, wasRefused })
  }

  #change(record: SignedEnvelope, recorded: RecordedVerdict, change: Change, why: string): void {
    const call = changedCall(record, recorded, change, why)
    this.#settings.onChange?.(call)
    const { tool, caller, ts } = call
    const key = JSON.stringify([change, tool, why])
    let group = this.#groups.get(key)
    if (group === undefined) {
      group = { change, tool, why, calls: 0, callers: new Set(), first: ts, last: ts }
      this.#groups.set(key, group)
    }
    group.calls++
    if (group.callers.size < MAX_CALLERS) group.callers.add(caller)
    if (ts < group.first) group.first = ts
    if (ts > group.last) group.last = ts
  }
}

function changedCall(
  record: SignedEnvelope,
  { decision }: RecordedVerdict,
  change: Change,
  why: string,
): ChangedCall {
  const { ts, trace_id } = record
  return { ts, trace_id, tool: toolOf(record), caller: callerName(record), change, was: decision, why }
}

/** Without versions: `billing/refund_payment`. */
export function toolOf({ server, tool }: Pick<SignedEnvelope, 'server' | 'tool'>): string {
  return `${withoutVersion(server)}/${withoutVersion(tool)}`
}

function withoutVersion(name: string): string {
  const at = name.lastIndexOf('@')
  return at < 0 ? name : name.slice(0, at)
}

/** The tenant and the name of the caller. */
export function callerName(record: SignedEnvelope): string {
  return `${record.tenant}: ${callerIn(record)}`
}

function increment(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
