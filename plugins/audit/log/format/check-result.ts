// The result of one check. What was not checked is never shown as correct.

export type CheckResult =
  | { readonly state: 'ok'; readonly detail: string }
  | {
      readonly state: 'failed'
      readonly reason: string
      readonly expected?: string
      readonly found?: string
    }
  | { readonly state: 'unchecked'; readonly reason: string }

export function confirmed(detail: string): CheckResult {
  return { state: 'ok', detail }
}

export function refuted(reason: string, hashes: { expected?: string; found?: string } = {}): CheckResult {
  return { state: 'failed', reason, ...hashes }
}

export function notChecked(reason: string): CheckResult {
  return { state: 'unchecked', reason }
}

/** Failed if one failed; ok if all are. */
export function worstOf(results: readonly Pick<CheckResult, 'state'>[]): CheckResult['state'] {
  if (results.some(({ state }) => state === 'failed')) return 'failed'
  return results.every(({ state }) => state === 'ok') && results.length > 0 ? 'ok' : 'unchecked'
}
