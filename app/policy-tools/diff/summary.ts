// The differences between two policies in lines of text, for a terminal, a record or a notice.
import type { Policy } from '../../policy/config.js'
import type { StagePlace } from '../judge/stages.js'
import { type PolicyChange, policyChanges, somebodyGains } from './diff.js'
import { type KnownTool, lockedTools } from './known-calls.js'
import type { ChangeEffect } from './verdict-changes.js'

export const changeSigns: Readonly<Record<ChangeEffect, string>> = {
  gain: '+',
  loss: '-',
  wider: '~',
  narrower: '~',
  unknown: '?',
}

/** Changes in a summary, the gains first, and the UTF-16 units of each. */
const MAX_CHANGES = 20
const MAX_LINE = 300

/** Calls that are compared for a summary, while a reload waits: of 1,000 tenants and 250 tools. */
const MAX_CALLS = 250_000

const order: readonly ChangeEffect[] = ['gain', 'wider', 'unknown', 'loss', 'narrower']

/** In the form of a notice. */
export interface ChangeSummary {
  /** Whether somebody gains; null if that is not known. */
  readonly gains: boolean | null
  readonly changes: string[]
  /** Number of changes that are left out. */
  readonly more?: number
}

export async function summarizeChanges(
  before: Policy,
  after: Policy,
  place: StagePlace,
  known: readonly KnownTool[],
): Promise<ChangeSummary> {
  const locked = [before, after].flatMap((policy) => lockedTools(policy, place.baseDir))
  const tools = [...known, ...locked]
  const changes = await policyChanges(before, after, { place, tools, maxCalls: MAX_CALLS })
  const sorted = [...changes].sort((a, b) => order.indexOf(a.effect) - order.indexOf(b.effect))
  return {
    gains: somebodyGains(changes) ?? null,
    changes: sorted.slice(0, MAX_CHANGES).map((change) => lineOf(change).slice(0, MAX_LINE)),
    ...(sorted.length > MAX_CHANGES ? { more: sorted.length - MAX_CHANGES } : {}),
  }
}

function lineOf({ effect, tenant, subject, detail, example }: PolicyChange): string {
  const owner = tenant === undefined ? '' : `${tenant}: `
  const shown = example === undefined ? '' : `, as ${example}`
  return `${changeSigns[effect]} ${owner}${subject} ${detail}${shown}`
}
