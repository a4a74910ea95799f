// Decides by a policy about a recorded call, also by what the policy in force found about it then.
import { type CallDecision, type PolicyJudgement, type Possibility, stricter } from '../judge/judge.js'
import { WHOLE_STAGE } from '../judge/stages.js'
import type { RecordedVerdict } from './recorded-verdict.js'

export interface Decided {
  /** The decision if nothing applies of what was not recorded, and if all of it does. */
  readonly least: CallDecision
  readonly most: CallDecision
  /** The reasons of the least strict decision, and of what may apply. */
  readonly reasons: readonly string[]
  readonly missing: readonly string[]
  /** Whether the decision rests on what was found then. */
  readonly isRepeated: boolean
}

/** The policy in force when the call was recorded, as it judges the call now. */
export interface InForce {
  readonly judgement: PolicyJudgement
  /** Whether it is the policy that is judged by. */
  readonly isSame: boolean
}

/** Findings that a response may cause too. */
const OF_RESPONSES: ReadonlySet<string> = new Set(['duration_too_long', 'payload_too_large'])

export function decideOn(
  judgement: PolicyJudgement,
  recorded: RecordedVerdict,
  inForce: InForce | undefined,
): Decided {
  let { decision: least } = judgement
  const reasons = new Set(judgement.reasons)
  const open: Possibility[] = []
  let isRepeated = false
  for (const possibility of judgement.possible) {
    const found = foundThen(possibility, recorded, inForce)
    if (found === undefined) {
      open.push(possibility)
      continue
    }
    isRepeated ||= !possibility.isPresumedAbsent
    if (found === 'allow') continue
    if (stricter(found, least)) {
      least = found
      reasons.clear()
    }
    const stated = recorded.findings.filter(({ stage }) => stage === possibility.stage)
    const names =
      possibility.reason === WHOLE_STAGE ? stated.map(({ reason }) => reason) : [possibility.reason]
    for (const name of names) reasons.add(name)
  }
  const mayChange = open.filter(({ decision }) => stricter(decision, least))
  const most = mayChange.reduce<CallDecision>(
    (a, { decision }) => (stricter(decision, a) ? decision : a),
    least,
  )
  for (const { reason, stage } of mayChange) reasons.add(reason === WHOLE_STAGE ? stage : reason)
  const missing = [...new Set(mayChange.flatMap((one) => one.missing))]
  return { least, most, reasons: [...reasons], missing, isRepeated }
}

/** The decision by what was found then; undefined if that is not known. */
function foundThen(
  possibility: Possibility,
  recorded: RecordedVerdict,
  inForce: InForce | undefined,
): CallDecision | undefined {
  const { stage, reason, basis, decision, isPresumedAbsent } = possibility
  if (inForce === undefined) return isPresumedAbsent ? 'allow' : undefined
  // A stage before the verdict ended the call, so those after it judged nothing.
  if (!recorded.isWhole && !isPresumedAbsent) return undefined
  const hasSameBasis = inForce.judgement.undecided.some(
    (one) => one.stage === stage && one.reason === reason && one.possible?.basis === basis,
  )
  if (!hasSameBasis || (basis === '' && !inForce.isSame)) return undefined
  const found = recorded.findings.filter((one) => one.stage === stage)
  if (reason === WHOLE_STAGE) {
    if (found.length > 0 && !inForce.isSame) return undefined
    return inForce.isSame && basis === '' ? recorded.decision : strictestOf(found)
  }
  if (!found.some((one) => one.reason === reason)) return 'allow'
  return OF_RESPONSES.has(reason) && recorded.isSent ? undefined : decision
}

function strictestOf(found: RecordedVerdict['findings']): CallDecision {
  const strictest = (['deny', 'escalate', 'confirm'] as const).find((wanted) =>
    found.some(({ effect }) => effect === wanted),
  )
  return strictest ?? 'allow'
}
