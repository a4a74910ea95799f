// The differences between two verdicts on one call, in words for operators.
import type { Limit } from '@svc/core'
import { stricter } from '../judge/judge.js'
import { WHOLE_STAGE } from '../judge/stages.js'
import type { AccessVerdict, Condition } from './access-judge.js'

/**
 * `gain` and `loss` are of what callers may use, `wider` and `narrower` of a limit or a condition; `unknown` is a change
 * of which no known call shows whether it allows more.
 */
export type ChangeEffect = 'gain' | 'loss' | 'wider' | 'narrower' | 'unknown'

export interface VerdictChange {
  readonly effect: ChangeEffect
  readonly detail: string
}

const words = { allow: 'allowed', confirm: 'confirmed', escalate: 'escalated', deny: 'denied' } as const

export function verdictChanges(was: AccessVerdict, is: AccessVerdict): readonly VerdictChange[] {
  const found = changesOf(was, is)
  if (was.withoutForms === undefined && is.withoutForms === undefined) return found
  const known = new Set(found.map(({ effect, detail }) => `${effect} ${detail}`))
  const others = changesOf(was.withoutForms ?? was, is.withoutForms ?? is)
  return [
    ...found,
    ...others
      .filter(({ effect, detail }) => !known.has(`${effect} ${detail}`))
      .map(({ effect, detail }) => ({ effect, detail: `without a form: ${detail}` })),
  ]
}

function changesOf(was: AccessVerdict, is: AccessVerdict): readonly VerdictChange[] {
  const { decision: old } = was
  const { decision: now } = is
  const base: VerdictChange[] =
    old === now
      ? []
      : [{ effect: stricter(now, old) ? 'loss' : 'gain', detail: `${textOf(was)} -> ${textOf(is)}` }]
  if (now === 'deny') return base
  return [
    ...base,
    ...conditionChanges(was, is),
    ...(old === 'deny' ? [] : limitChanges(was.limits, is.limits)),
  ]
}

function textOf({ decision, reasons: [reason], conditions }: AccessVerdict): string {
  const by = reason === undefined ? '' : ` by ${reason}`
  const ifs = conditions.filter(({ isPresumedAbsent }) => !isPresumedAbsent).map(textOfCondition)
  return [`${words[decision]}${by}`, ...ifs].join(', or ')
}

function textOfCondition({ stage, reason, decision, missing }: Condition): string {
  return `${words[decision]} by ${reason === WHOLE_STAGE ? stage : reason} depending on ${missing.join(', ')}`
}

/** Those of conditions that are stricter than what else is decided, as the text of a decision that changed has the others. */
function conditionChanges(was: AccessVerdict, is: AccessVerdict): VerdictChange[] {
  const isShown = ({ decision }: Condition) =>
    stricter(decision, was.decision) && stricter(decision, is.decision)
  const [old, now] = [was.conditions.filter(isShown), is.conditions.filter(isShown)]
  const other = (one: Condition, others: readonly Condition[]) =>
    others.find(({ stage, reason }) => stage === one.stage && reason === one.reason)
  const gone = old.filter((one) => !one.isPresumedAbsent && other(one, now) === undefined)
  return [
    ...gone.map((one) => ({ effect: 'wider' as const, detail: `no longer ${textOfCondition(one)}` })),
    ...now.flatMap((one) => conditionChange(other(one, old), one)),
  ]
}

function conditionChange(was: Condition | undefined, is: Condition): VerdictChange[] {
  const text = textOfCondition(is)
  if (was === undefined) return is.isPresumedAbsent ? [] : [{ effect: 'narrower', detail: text }]
  if (was.decision !== is.decision) {
    const effect = stricter(is.decision, was.decision) ? 'narrower' : 'wider'
    const before: VerdictChange = { effect, detail: `${text}, before ${words[was.decision]}` }
    return was.basis === is.basis ? [before] : [before, changed(text)]
  }
  return was.basis === is.basis ? [] : [changed(text)]
}

function changed(condition: string): VerdictChange {
  return { effect: 'unknown', detail: `${condition}: the condition changed` }
}

const units = { callsPerDay: 'per day', ratePerSec: 'per second', burst: 'at once' } as const

function limitChanges(was: readonly Limit[], is: readonly Limit[]): VerdictChange[] {
  const keys = new Set([...was, ...is].map(({ key }) => key))
  return [...keys].flatMap((key) => {
    const [old, now] = [was.find((one) => one.key === key), is.find((one) => one.key === key)]
    return (['callsPerDay', 'ratePerSec', 'burst'] as const).flatMap((name): VerdictChange[] => {
      const [a, b] = [limitOf(old, name), limitOf(now, name)]
      if (a === b) return []
      return [
        {
          effect: b > a ? 'wider' : 'narrower',
          detail: `limit ${units[name]} ${countOf(a)} -> ${countOf(b)}`,
        },
      ]
    })
  })
}

function limitOf(limit: Limit | undefined, name: keyof typeof units): number {
  const { ratePerSec, burst } = limit ?? {}
  // Without a burst of its own, a rate lets as many calls at once.
  const value = name === 'burst' ? (burst ?? (ratePerSec && Math.max(1, ratePerSec))) : limit?.[name]
  return value ?? Number.POSITIVE_INFINITY
}

function countOf(limit: number): string {
  return Number.isFinite(limit) ? String(limit) : 'none'
}
