// Compares two sections by the effect that each reason has.
import { type Effect, type PolicyChange, reasons } from '@svc/core'
import type { EnforcementConfig } from './config.js'
import { canonicalReason, compileVerdict } from './verdict.js'

/** `would_deny` and `reported` let a call pass. */
const STRICTNESS: Readonly<Record<Effect, number>> = {
  reported: 0,
  would_deny: 0,
  confirm: 1,
  escalate: 2,
  deny: 3,
}
const WORDS: Readonly<Record<Effect, string>> = {
  reported: 'is reported',
  would_deny: 'is reported',
  escalate: 'escalates',
  confirm: 'is confirmed',
  deny: 'denies',
}

/** A reason that no list names. */
const ANY_OTHER = '*'

export function compareEnforcement(before: EnforcementConfig, after: EnforcementConfig): PolicyChange[] {
  const named = [before, after].flatMap(({ deny_on = [], escalate_on = [] }) => [...deny_on, ...escalate_on])
  const all = [...new Set([...reasons, ...named.map(canonicalReason), ANY_OTHER])]
  const changes = all.flatMap((reason): PolicyChange[] => {
    // Another section decides whether calls can escalate, so a reason is compared under both.
    const effects = [true, false].map((canEscalate) => ({
      was: compileVerdict(before, canEscalate).effectOf(reason),
      is: compileVerdict(after, canEscalate).effectOf(reason),
    }))
    const differing = effects.filter(({ was, is }) => STRICTNESS[was] !== STRICTNESS[is])
    const shown = differing.find(({ was, is }) => STRICTNESS[is] < STRICTNESS[was]) ?? differing[0]
    if (shown === undefined) return []
    const { was, is } = shown
    const effect = STRICTNESS[is] < STRICTNESS[was] ? 'wider' : 'narrower'
    const subject = reason === ANY_OTHER ? 'any other reason' : reason
    return [{ effect, subject, detail: `${WORDS[was]} -> ${WORDS[is]}` }]
  })
  if (before.mode !== after.mode) {
    // Rules and a runtime deny in this mode whatever `deny_on` says.
    const effect = after.mode === 'observe' ? 'wider' : 'narrower'
    changes.unshift({ effect, subject: 'enforcement.mode', detail: `${before.mode} -> ${after.mode}` })
  }
  if (changes.length > 0) return changes
  return [{ effect: 'none', subject: 'enforcement', detail: 'changed, and no reason has another effect' }]
}
