// The keys that verification trusts, each for its leaves.

import {
  publicKeyLine,
  type SignatureVerifier,
  type TrustedKey,
  verifierFromLine,
} from '../../keys/public-key.js'
import type { KeySpan } from '../../tree/journal-line.js'

const ALL = [0, Number.POSITIVE_INFINITY] as const

interface Term {
  readonly key: SignatureVerifier
  readonly from: number
  readonly until: number
}

export class TrustedKeys {
  readonly #terms = new Map<string, Term>()

  constructor(readonly spans: readonly KeySpan[]) {
    for (const span of spans) {
      const key = verifierFromLine(span[0])
      this.#terms.set(key.keyId, { key, ...termOf(span) })
    }
  }

  get ids(): string[] {
    return [...this.#terms.keys()]
  }

  has(keyId: string): boolean {
    return this.#terms.has(keyId)
  }

  /** The key if it may sign `leaf`; for `undefined`, a line whose leaf is not known, if it may sign any. */
  at(keyId: string, leaf: number | undefined): SignatureVerifier | undefined {
    const term = this.#terms.get(keyId)
    return term !== undefined && isIn(term, leaf) ? term.key : undefined
  }

  allAt(leaf: number | undefined): SignatureVerifier[] {
    return [...this.#terms.values()].filter((term) => isIn(term, leaf)).map(({ key }) => key)
  }
}

/** The spans that `keys` are trusted for, before a journal says more. */
export function spansOf(keys: readonly TrustedKey[]): KeySpan[] {
  return keys.map(({ publicKey, leaves: [from, until] = [0, Number.POSITIVE_INFINITY] }) => {
    return [publicKeyLine(publicKey), from, Number.isFinite(until) ? until : null, null]
  })
}

/**
 * The spans of the keys that lead back to one of `trusted`: a key is trusted if it is among them, no longer than they
 * say, or if a key that was trusted at that line introduced it.
 */
export function trustedSpans(spans: readonly KeySpan[], trusted: readonly TrustedKey[]): KeySpan[] {
  const given = new Map(trusted.map(({ keyId, leaves }) => [keyId, leaves ?? ALL] as const))
  const known = new Map<string, KeySpan>()
  for (const [line, from, until, by] of spans) {
    const { keyId } = verifierFromLine(line)
    const introducer = by === null ? undefined : known.get(by)
    const isIntroduced = introducer !== undefined && isIn(termOf(introducer), from - 1)
    const leaves = given.get(keyId) ?? (isIntroduced ? ALL : undefined)
    if (leaves === undefined) continue
    const end = Math.min(until ?? ALL[1], leaves[1])
    known.set(keyId, [line, Math.max(from, leaves[0]), Number.isFinite(end) ? end : null, by])
  }
  return [...known.values()]
}

function termOf([, from, until]: KeySpan): Pick<Term, 'from' | 'until'> {
  return { from, until: until ?? Number.POSITIVE_INFINITY }
}

function isIn({ from, until }: Pick<Term, 'from' | 'until'>, leaf: number | undefined): boolean {
  return leaf === undefined || (from <= leaf && leaf < until)
}
