// The changes that a block would have made if it had been set, or lifted: the calls of a log that it matches, judged by the
// policy in force with the blocks that would be in force then. It runs beside the calls of its process, so its time is limited.
import type { BlockSource } from '../../blocks/stage.js'
import type { Policy } from '../../policy/config.js'
import type { NamedRequest } from '../judge/recorded-call.js'
import { PolicyJudge } from './policy-judge.js'
import { keptPolicyIn, recordsOf } from './recorded-logs.js'
import { isCall } from './recorded-verdict.js'
import { type ChangeGroup, Replay, type ReplayResult } from './replay.js'

interface BlockReplaySettings {
  readonly dir: string
  /** Milliseconds since the epoch. */
  readonly since: number
  readonly until: number
  readonly place: Parameters<typeof PolicyJudge.start>[1]
  /** The blocks that would be in force. */
  readonly blocks: BlockSource
  /** Whether the block that changes is on the request. */
  isOn(request: NamedRequest): boolean
  /** The policy in force. */
  readonly policy: Policy
  /** One that was in force earlier; undefined if it no longer loads. */
  loadKept(text: string): Promise<Policy | undefined>
  /** Time after which the rest is not read. */
  readonly maxMs?: number
}

export interface BlockReplay
  extends Pick<ReplayResult, 'judged' | 'same' | 'groups' | 'notJudged'>,
    Pick<ReplayResult['fidelity'], 'repeated' | 'decided'> {
  /** Calls in the log, with those that the block is not on. */
  readonly read: number
  /** The callers whose calls change, the most first: tenant and name. */
  readonly callers: readonly { readonly caller: string; readonly calls: number }[]
  /** The time of the first call that was not read, as the time limit had passed. */
  readonly stoppedAt: string | undefined
}

export type { ChangeGroup }

const MAX_MS = 4_000
/** The calls of the gateway wait no longer for it. */
const SLICE_MS = 10
const MAX_CALLERS = 5

export async function replayBlock(settings: BlockReplaySettings): Promise<BlockReplay> {
  const { dir, since, until, place, policy, blocks, isOn, maxMs = MAX_MS } = settings
  const judges: PolicyJudge[] = []
  const judgeOf = async (policy: Policy, given?: BlockSource) => {
    const judge = await PolicyJudge.start(policy, place, given)
    judges.push(judge)
    return judge
  }
  try {
    const judge = await judgeOf(policy, blocks)
    const callers = new Map<string, number>()
    const replay = new Replay({
      now: judge,
      inForce: async (sha256) => {
        if (sha256 === policy.sha256) return judgeOf(policy)
        const text = keptPolicyIn([dir], sha256)
        const kept = text === undefined ? undefined : await settings.loadKept(text)
        return kept && judgeOf(kept)
      },
      onChange: ({ caller }) => void callers.set(caller, (callers.get(caller) ?? 0) + 1),
    })
    // Whole days are read here, as the clock would not be looked at for records that the reader passes over.
    const filter = { since: new Date(since).toISOString().slice(0, 10) }
    const began = performance.now()
    let slice = began
    let read = 0
    let stoppedAt: string | undefined
    for await (const record of recordsOf([dir], filter)) {
      const now = performance.now()
      if (now - began > maxMs) {
        stoppedAt = new Date(Math.max(since, Date.parse(record.ts))).toISOString()
        break
      }
      if (now - slice > SLICE_MS) {
        await new Promise((resolve) => setImmediate(resolve))
        slice = performance.now()
      }
      const at = Date.parse(record.ts)
      if (at < since || at >= until || !isCall(record)) continue
      read++
      const request = judge.requestOf(record)
      if (request !== undefined && isOn(request)) await replay.add(record)
    }
    const { judged, same, groups, notJudged, fidelity } = await replay.finish()
    const { repeated, decided } = fidelity
    const most = [...callers].map(([caller, calls]) => ({ caller, calls })).sort((a, b) => b.calls - a.calls)
    const shown = most.slice(0, MAX_CALLERS)
    return { read, judged, same, groups, notJudged, repeated, decided, callers: shown, stoppedAt }
  } finally {
    for (const judge of judges) await judge[Symbol.asyncDispose]()
  }
}
