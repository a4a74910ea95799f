// Compares two sections rule by rule. A rule only restricts, so one more narrows; conditions are not compared.
import { isDeepStrictEqual } from 'node:util'
import type { PolicyChange } from '@svc/core'
import { findReference, type MatchedList, NotComparableError } from '@svc/core/match'
import type { RuleConfig, RulesConfig } from './config.js'

const STRICTNESS = { report: 0, confirm: 1, escalate: 2, deny: 3 } as const

export function compareRules(before: RulesConfig, after: RulesConfig): PolicyChange[] {
  const named = (rules: RulesConfig) => new Map(rules.map((rule) => [rule.name, rule]))
  const [olds, nows] = [named(before), named(after)]
  return [...new Set([...nows.keys(), ...olds.keys()])].flatMap((name) =>
    changesOf(olds.get(name), nows.get(name)),
  )
}

function changesOf(old: RuleConfig | undefined, now: RuleConfig | undefined): PolicyChange[] {
  const rule = now ?? old
  if (rule === undefined || isDeepStrictEqual(old, now)) return []
  const subject = `rule ${rule.name}`
  if (old === undefined || now === undefined) {
    const what = `${now === undefined ? 'removed' : 'added'}: ${describe(rule)}`
    if (rule.then === 'report') return [{ effect: 'none', subject, detail: what }]
    return [{ effect: now === undefined ? 'wider' : 'narrower', subject, detail: what }]
  }
  if (old.then === 'report' && now.then === 'report') {
    return [{ effect: 'none', subject, detail: 'changed; it only reports' }]
  }
  if (old.require !== now.require || old.when !== now.when) {
    return [{ effect: 'unknown', subject, detail: 'condition changed, not compared' }]
  }
  const changes: PolicyChange[] = []
  if (old.then !== now.then) {
    const effect = STRICTNESS[now.then] < STRICTNESS[old.then] ? 'wider' : 'narrower'
    changes.push({ effect, subject, detail: `${old.then} -> ${now.then}` })
  }
  const [was, is] = [old.else ?? 'deny', now.else ?? 'deny']
  if (old.then === 'confirm' && now.then === 'confirm' && was !== is) {
    const effect = STRICTNESS[is] < STRICTNESS[was] ? 'wider' : 'narrower'
    changes.push({ effect, subject, detail: `without a form ${was} -> ${is}` })
  }
  if (old.approval_set_id !== now.approval_set_id) {
    changes.push({ effect: 'unknown', subject, detail: 'other people approve, not compared' })
  }
  changes.push(...toolChanges(subject, listOf(old), listOf(now)))
  return changes.length > 0
    ? changes
    : [{ effect: 'none', subject, detail: 'its message, its question or what it keeps changed' }]
}

function describe({ require, when, then, tools = ['*'] }: RuleConfig): string {
  const condition =
    require === undefined ? (when === undefined ? 'always' : `when ${when}`) : `require ${require}`
  return `${condition}, then ${then}, for ${tools.join(', ')}`
}

/** A rule without tools applies to all. */
function listOf({ tools = ['*'] }: RuleConfig): MatchedList {
  return { patterns: tools, isFolded: true }
}

function toolChanges(subject: string, old: MatchedList, now: MatchedList): PolicyChange[] {
  try {
    const released = findReference({ inside: [old], outside: [now] })
    const added = findReference({ inside: [now], outside: [old] })
    return [
      ...(released === undefined
        ? []
        : [
            {
              effect: 'wider' as const,
              subject,
              detail: 'no longer applies to every tool that it did',
              example: released,
            },
          ]),
      ...(added === undefined
        ? []
        : [{ effect: 'narrower' as const, subject, detail: 'applies to more tools', example: added }]),
    ]
  } catch (error) {
    if (!(error instanceof NotComparableError)) throw error
    return [{ effect: 'unknown', subject, detail: `its tools are not compared: ${error.message}` }]
  }
}
