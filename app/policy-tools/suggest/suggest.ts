// The smallest policy that keeps what was used: an edit of the text of the policy in force, which is checked before it is
// given out.
import { isPending } from '@svc/core'
import { PolicyText } from '@svc/core/policy'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import type { Policy } from '../../policy/config.js'
import { type PolicyChange, policyChanges } from '../diff/diff.js'
import { recordedCalls } from '../diff/recorded-calls.js'
import { stricter } from '../judge/judge.js'
import { PolicyJudge } from '../replay/policy-judge.js'
import { learnedDecision, type NewCaller, Usage } from './usage.js'

export interface SuggestInput {
  readonly policy: Policy
  readonly text: string
  /** Loads the suggested text, which is written as the policy is. Throws if it has a mistake. */
  load(text: string): Promise<Policy>
  /** Read three times. */
  records(): AsyncIterable<SignedEnvelope> | Iterable<SignedEnvelope>
  readonly place: Parameters<typeof PolicyJudge.start>[1]
  /** Learn from calls from this day or instant on; of calls before, only the time of last use counts. */
  readonly from: string | undefined
  readonly headroom: number
  readonly minDays: number
}

export interface Suggestion {
  readonly text: string
  readonly edits: number
  readonly learned: number
  readonly days: number
  readonly newCallers: readonly NewCaller[]
  /** The changes that no known call shows, so that it is not known whether they allow more. */
  readonly unknown: readonly PolicyChange[]
}

/** Throws if the calls span too few days, and if the suggestion allows a known call more, or loses one that was used. */
export async function suggestPolicy(input: SuggestInput): Promise<Suggestion> {
  const { policy, minDays, headroom, place, from } = input
  await using before = await PolicyJudge.start(policy, place)
  const usage = new Usage(before, from)
  for await (const record of input.records()) await usage.add(record)
  const { days, learned } = usage
  // A record whose time is none makes the days no number.
  if (!(days >= minDays) || learned === 0) {
    const few = learned === 0 ? 'no call can be learned from' : `the calls span ${days.toFixed(1)} days`
    throw new Error(`${few}; at least ${minDays} days are needed, as rare calls would be lost (--min-days)`)
  }
  const edited = new PolicyText(input.text)
  const edits = usage.narrowing?.edits({ headroom }) ?? []
  for (const edit of edits) edited.edit(edit)
  const text = String(edited)
  const narrow = await input.load(text)
  const unknown = await checkNarrower(policy, narrow, input)
  await using after = await PolicyJudge.start(narrow, place)
  for await (const record of input.records()) {
    if (usage.isRecent(record)) await checkKept(record, before, after)
  }
  return { text, edits: edits.length, learned, days, newCallers: usage.newCallers(), unknown }
}

/** The changes that no known call shows. The known callers and tools are those of the policies and of the records. */
async function checkNarrower(
  before: Policy,
  after: Policy,
  { place, records }: SuggestInput,
): Promise<PolicyChange[]> {
  const { callers, tools } = await recordedCalls(records())
  const changes = await policyChanges(before, after, { place, callers, tools })
  const wider = changes.find(({ effect }) => effect === 'gain' || effect === 'wider')
  if (wider === undefined) return changes.filter(({ effect }) => effect === 'unknown')
  throw new Error(
    `nothing is suggested: it would allow ${wider.subject} more (${wider.detail}, ${wider.example ?? ''})`,
  )
}

async function checkKept(record: SignedEnvelope, before: PolicyJudge, after: PolicyJudge): Promise<void> {
  const learned = learnedDecision(record, before.later)
  if (learned === undefined) return
  const decided = async (judge: PolicyJudge) => {
    const judged = judge.judge(record)
    return isPending(judged) ? (await judged).decision : judged.decision
  }
  if (stricter(await decided(before), learned) || !stricter(await decided(after), learned)) return
  throw new Error(`nothing is suggested: ${record.tool} of ${record.server} was used and would be lost`)
}
