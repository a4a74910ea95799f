// The differences between two policies in lines of text, for a terminal, a record or a notice.
import type { ChangeEffect, PolicyChange } from '@svc/core'
import type { Policy } from '../policy/config.js'
import { policyChanges, somebodyGains } from './diff.js'

export const changeSigns: Readonly<Record<ChangeEffect, string>> = {
  gain: '+',
  loss: '-',
  wider: '~',
  narrower: '~',
  unknown: '?',
  none: ' ',
}

/** Changes in a summary, the gains first, and the UTF-16 units of each. */
const MAX_CHANGES = 20
const MAX_LINE = 300

const order: readonly ChangeEffect[] = ['gain', 'wider', 'unknown', 'loss', 'narrower', 'none']

/** In the form of a notice. */
export interface ChangeSummary {
  /** Whether somebody gains; null if that is not known. */
  readonly gains: boolean | null
  readonly changes: string[]
  /** Number of changes that are left out. */
  readonly more?: number
}

export function summarizeChanges(before: Policy, after: Policy): ChangeSummary {
  const changes = policyChanges(before, after).filter(({ effect }) => effect !== 'none')
  const sorted = [...changes].sort((a, b) => order.indexOf(a.effect) - order.indexOf(b.effect))
  return {
    gains: somebodyGains(changes) ?? null,
    changes: sorted.slice(0, MAX_CHANGES).map((change) => lineOf(change).slice(0, MAX_LINE)),
    ...(sorted.length > MAX_CHANGES ? { more: sorted.length - MAX_CHANGES } : {}),
  }
}

function lineOf({ effect, tenant, subject, detail, example }: PolicyChange): string {
  const owner = tenant === undefined ? '' : `${tenant}: `
  const shown = example === undefined ? '' : `, e.g. ${example}`
  return `${changeSigns[effect]} ${owner}${subject} ${detail}${shown}`
}
