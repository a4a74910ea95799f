// Each kind of tampering with the sealed lines of a log, and what verification must report.

import { canonicalize, toBase64 } from '@svc/core/json'
import fc from 'fast-check'
import { envelope, signer } from '../writer/records.js'

/** Sealed lines of the log. */
export const SEALED = 40

/** A whole new record that the holder of the key has signed. */
export function signed(changes = {}): string {
  const record = { ...envelope(changes), key_id: signer.keyId }
  const sig = `ed25519:${toBase64(signer.sign(Buffer.from(canonicalize(record))))}`
  return canonicalize({ ...record, sig })
}

/** Each kind of tampering with a log of some lines: the lines afterwards, and what is to be found where. */
interface Tampered {
  readonly lines: readonly string[]
  readonly kind: 'edited' | 'deleted' | 'inserted' | 'reordered' | 'duplicated' | 'truncated'
  readonly records: number
  /** Numbers of the lines of which one is to be named. */
  readonly at: readonly number[]
  /** Lines in the sealed numbering that a range must overlap. */
  readonly sealed: number
}

export const index = fc.nat(SEALED - 1)
export const KINDS: Record<string, (lines: readonly string[], i: number, j: number) => Tampered> = {
  'an edited record': (lines, i) => ({
    lines: lines.with(i, lines[i]!.replace('acme', 'evil')),
    kind: 'edited',
    records: 1,
    at: [i + 1],
    sealed: i + 1,
  }),
  'a record replaced by the holder of the key': (lines, i) => {
    // Not the last: then the new one might as well have come after the end was cut off.
    const at = Math.min(i, SEALED - 2)
    return { lines: lines.with(at, signed()), kind: 'edited', records: 1, at: [at + 1], sealed: at + 1 }
  },
  'deleted records': (lines, i, j) => {
    // Never up to the end: that is the next kind.
    const from = Math.min(i, SEALED - 2)
    const count = 1 + (j % (SEALED - 1 - from))
    return {
      lines: lines.toSpliced(from, count),
      kind: 'deleted',
      records: count,
      at: [from + 1],
      sealed: from + 1,
    }
  },
  'a log cut short': (lines, i) => ({
    lines: lines.slice(0, i),
    kind: 'truncated',
    records: SEALED - i,
    at: [i + 1],
    sealed: i + 1,
  }),
  'records cut out of the end, before the unsealed ones': (lines, i) => ({
    lines: lines.toSpliced(i, SEALED - i),
    kind: 'truncated',
    records: SEALED - i,
    at: [i + 1],
    sealed: i + 1,
  }),
  'an inserted record': (lines, i) => ({
    lines: lines.toSpliced(i, 0, signed()),
    kind: 'inserted',
    records: 1,
    at: [i + 1],
    sealed: i + 1,
  }),
  'a moved record': (lines, i, j) => {
    const to = i === j ? (i + 1) % SEALED : j
    return {
      lines: lines.toSpliced(i, 1).toSpliced(to, 0, lines[i]!),
      kind: 'reordered',
      records: 1,
      // Of two that changed places either may be the one that moved.
      at: Math.abs(i - to) === 1 ? [i + 1, to + 1] : [to + 1],
      sealed: Math.min(i, to) + 1,
    }
  },
  'a duplicated record': (lines, i, j) => {
    // Not the last one behind itself: that copy is not sealed, and nothing forbids to append a record twice.
    const to = Math.min(j, i === SEALED - 1 ? SEALED - 2 : j)
    return {
      lines: lines.toSpliced(to, 0, lines[i]!),
      kind: 'duplicated',
      records: 1,
      at: [to + 1, i + 2],
      // A copy directly before its original leaves that line as it was: the change begins with the next one.
      sealed: to === i ? to + 2 : to + 1,
    }
  },
}
