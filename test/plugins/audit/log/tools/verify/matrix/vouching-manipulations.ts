// Manipulations of signatures for which a later checkpoint vouches, and of those for which none does.

import { mkdirSync, rmSync } from 'node:fs'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { LeafRange } from '@svc/plugin-audit/internal/log/merkle/leaf-range'
import { leafHash } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { LogBuilder } from '../../../../../../support/audit-log.js'
import { EARLY, type Files, first, PAST, second, stranger, TODAY } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const journal = 'audit.journal'
const past = `audit-${PAST}.ndjson`
const early = `audit-${EARLY}.checkpoint`
const notes = `audit-${PAST}.checkpoint`
const newest = `audit-${TODAY}.checkpoint`

/** The note with another last signature of the same length. */
function forged(note: string): string {
  return note.replace(/.{20}(?=.{8}\n$)/, 'A'.repeat(20))
}

/** A note with the root that the tree has after one line is replaced. Its signature is forged. */
function forgedNote(f: Files, log: LogBuilder, old: string, line: string): string {
  const at = log.leaves.indexOf(leafHash(Buffer.from(old)))
  const size = Number(f.text(notes).split('\n')[1])
  const tree = new LeafRange()
  for (const leaf of log.leaves.with(at, leafHash(Buffer.from(line))).slice(0, size)) tree.append(leaf)
  return forged(log.note([second], { size, root: tree.root() }))
}

export const vouchingManipulations: readonly Manipulation[] = [
  {
    title: 'the signature of a checkpoint is forged, and later ones of its key agree',
    tamper: (f) => f.notes(PAST, (all) => all.with(0, forged(all[0]!))),
    found: [],
    undetectable: 'the later ones sign the same leaves, so that its signature is not checked',
  },
  {
    title: 'the signature of the newest checkpoint is forged',
    tamper: (f) => f.notes(TODAY, (all) => all.with(-1, forged(all.at(-1)!))),
    found: [`${newest}:6: bad_signature`],
  },
  {
    title: 'the last signature of a retired key is forged',
    tamper: (f) =>
      f.notes(EARLY, (all) =>
        all.with(
          -1,
          all.at(-1)!.replace(/(?<=\n\n.{80}).{6}/, (part) => (part === 'AAAAAA' ? 'B' : 'A').repeat(6)),
        ),
      ),
    found: [`${early}:11: bad_signature`, `${early}:0: missing_checkpoint`],
  },
  {
    title: 'a record is edited, and a checkpoint of the new leaves is forged',
    tamper: (f, log) => {
      const old = f.line(past, 3)
      const line = old.replace('acme', 'evil')
      f.editLine(past, 3, () => line)
      f.edit(notes, (text) => forgedNote(f, log, old, line) + text)
    },
    found: [`${past}:3: bad_signature`, `${notes}:1: bad_signature`],
  },
  {
    title: 'a record is edited, and a forged checkpoint takes the place of the one that covers it',
    tamper: (f, log) => {
      const old = f.line(past, 3)
      const line = old.replace('acme', 'evil')
      f.editLine(past, 3, () => line)
      f.notes(PAST, (all) => all.with(0, forgedNote(f, log, old, line)))
    },
    found: [`${past}:3: bad_signature`, `${notes}:1: bad_signature`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the holder of a later key writes a journal line in the name of an earlier one',
    tamper: (f) => {
      rmSync(f.dir, { recursive: true })
      mkdirSync(f.dir)
      const log = new LogBuilder(f.dir, { at: `${PAST}T10:00:00.000Z` })
      log.journal({ kind: 'key', key: publicKeyLine(second.publicKey) })
      log.checkpointSigners = [second]
      log.journal({ kind: 'seal', ranges: [] }, second, { key_id: first.keyId })
      log.checkpoint()
      log.signer = second
      log.record(PAST)
      log.seal()
    },
    found: [`${journal}:3: bad_signature`],
  },
  {
    title: 'the holder of the key seals a journal line with a wrong signature in its own name',
    build: {
      before: (log) => {
        log.journal({ kind: 'seal', ranges: [] }, stranger, { key_id: second.keyId })
        log.checkpoint()
      },
    },
    found: [],
    undetectable:
      'the key has signed the checkpoints that cover the line, so that its signature is not checked',
  },
  {
    title: 'the holder of the key seals a line that introduces a key, with a wrong signature',
    build: {
      before: (log) => {
        log.journal({ kind: 'key', key: publicKeyLine(stranger.publicKey) }, stranger, {
          key_id: second.keyId,
        })
        log.checkpoint()
      },
    },
    found: [`${journal}:13: bad_signature`],
  },
]
