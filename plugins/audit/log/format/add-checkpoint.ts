// The body of an add-checkpoint request (c2sp.org/tlog-witness).

import { type Head, parseAnyCheckpoint, parseTreeSize } from './checkpoint.js'
import { type Digest, digestFromBase64, digestToBase64 } from './digest.js'
import { type Note, parseNote } from './note.js'

const MAX_PROOF_LINES = 63
const OLD = 'old '

export interface AddCheckpoint {
  /** Leaves of the checkpoint that the witness cosigned before; 0 for none. */
  readonly oldSize: number
  readonly proof: readonly Digest[]
  readonly note: Note
  readonly checkpoint: Head
}

export function formatAddCheckpoint(oldSize: number, proof: readonly Digest[], signed: string): string {
  const lines = proof.map((digest) => `${digestToBase64(digest)}\n`)
  return `${OLD}${oldSize}\n${lines.join('')}\n${signed}`
}

/** Undefined for a malformed body. */
export function parseAddCheckpoint(body: string): AddCheckpoint | undefined {
  const end = body.indexOf('\n\n')
  if (end < 0 || !body.startsWith(OLD)) return undefined
  const [oldLine = '', ...proofLines] = body.slice(OLD.length, end).split('\n')
  const oldSize = parseTreeSize(oldLine)
  const proof = proofLines.map(digestFromBase64)
  const note = parseNote(body.slice(end + 2))
  const checkpoint = note === undefined ? undefined : parseAnyCheckpoint(note.text)
  if (oldSize === undefined || note === undefined || checkpoint === undefined) return undefined
  if (proof.length > MAX_PROOF_LINES || !proof.every((digest) => digest !== undefined)) return undefined
  return { oldSize, proof, note, checkpoint }
}
