// What the tests of sealing share: appending to a day, and its checkpoints as an independent verifier reads them.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Checkpoint, parseCheckpoint } from '@svc/plugin-audit/internal/log/seal/checkpoint'
import { notePieces } from '@svc/plugin-audit/internal/log/seal/note-file'
import type { SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { DAY, envelope, linesOf, signer } from '../writer/records.js'
import { openNote, treeRoot } from './independent-verifier.js'

const on = (day: string) => envelope({ ts: `${day}T10:00:00Z` })

export async function append(appender: SvcAppender, count: number, day = DAY): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => appender.append(on(day))))
}

/** The checkpoints of a day, each verified against the log in `dir`. */
export function checkpointsIn(dir: string, day = DAY, key = signer): Checkpoint[] {
  const lines = linesOf(dir, `audit-${day}.ndjson`)
  return notePieces(readFileSync(join(dir, `audit-${day}.checkpoint`))).map(({ text, torn }) => {
    expect(torn).to.equal(false)
    const origin = `svc-audit/${key.keyId}/${day}`
    const checkpoint = parseCheckpoint(openNote(text, origin, key.publicKey))!
    expect(Buffer.from(checkpoint.root, 'binary')).to.deep.equal(treeRoot(lines.slice(0, checkpoint.size)))
    return checkpoint
  })
}
