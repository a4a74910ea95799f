// The keys that verification trusts, each for its leaves.

import { parsePublicKeyLine, type Verifier, verifierFromPublicKey } from '../keys/public-key.js'
import type { KeySpan } from '../tree/journal-line.js'

interface Term {
  readonly key: Verifier
  readonly from: number
  readonly until: number
}

export class TrustedKeys {
  readonly #terms = new Map<string, Term>()

  constructor(readonly spans: readonly KeySpan[]) {
    for (const [line, from, until] of spans) {
      const key = verifierFromPublicKey(parsePublicKeyLine(line))
      this.#terms.set(key.keyId, { key, from, until: until ?? Number.POSITIVE_INFINITY })
    }
  }

  get ids(): string[] {
    return [...this.#terms.keys()]
  }

  has(keyId: string): boolean {
    return this.#terms.has(keyId)
  }

  /** The key where it may sign `leaf`; for `undefined`, a line whose leaf is not known, where it may sign any. */
  at(keyId: string, leaf: number | undefined): Verifier | undefined {
    const term = this.#terms.get(keyId)
    return term !== undefined && isIn(term, leaf) ? term.key : undefined
  }

  allAt(leaf: number | undefined): Verifier[] {
    return [...this.#terms.values()].filter((term) => isIn(term, leaf)).map(({ key }) => key)
  }
}

function isIn({ from, until }: Term, leaf: number | undefined): boolean {
  return leaf === undefined || (from <= leaf && leaf < until)
}
