// The keys that the reader gives: of logs, as `svc audit verify --write-keys` writes them, and of witnesses.

import { COSIGNATURE_TYPE } from '../format/note.js'
import {
  type LeafBounds,
  type LeafKeys,
  leafBounds,
  type NoteVerifier,
  parsePublicKeyLine,
  withoutLabel,
} from '../format/verifier.js'
import { type NamedKey, parseVkey } from '../format/vkey.js'
import { webVerifier } from './web-crypto.js'

export interface VerifierKey extends NoteVerifier {
  readonly leaves: LeafBounds
}

export interface VerifierKeys {
  readonly logs: readonly VerifierKey[]
  readonly witnesses: readonly NamedKey[]
  /** Numbers of the lines that are not keys. */
  readonly wrongLines: readonly number[]
}

/** Reads one key a line. Lines of any other form may be secrets, so they are named by their number only. */
export function readVerifierKeys(text: string): VerifierKeys {
  const logs: VerifierKey[] = []
  const witnesses: NamedKey[] = []
  const wrongLines: number[] = []
  for (const [index, whole] of text.split('\n').entries()) {
    const line = whole.trim()
    if (line === '' || /^(?:#|key id\s)/.test(line)) continue
    const log = logKey(line)
    const witness = log === undefined ? parseVkey(line, COSIGNATURE_TYPE, webVerifier) : undefined
    if (log !== undefined) logs.push(log)
    else if (witness !== undefined) witnesses.push(witness)
    else wrongLines.push(index + 1)
  }
  return { logs, witnesses, wrongLines }
}

function logKey(line: string): VerifierKey | undefined {
  const [key = '', ...bounds] = withoutLabel(line).split(/\s+/)
  const [publicKey, leaves] = [parsePublicKeyLine(key), leafBounds(bounds)]
  return publicKey && leaves && { ...webVerifier(publicKey), leaves }
}

/** A key may be given with several ranges of leaves. */
export function leafKeysOf(keys: readonly VerifierKey[]): LeafKeys {
  const mayFit = ({ leaves: [from, until] }: VerifierKey, leaf: number | undefined) =>
    leaf === undefined || (from <= leaf && leaf < until)
  return {
    has: (keyId) => keys.some((key) => key.keyId === keyId),
    at: (keyId, leaf) => keys.find((key) => key.keyId === keyId && mayFit(key, leaf)),
    allAt: (leaf) => keys.filter((key) => mayFit(key, leaf)),
  }
}
