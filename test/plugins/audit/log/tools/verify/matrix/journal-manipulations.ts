// Manipulations of the journal and the covers, and false statements in them by the holder of a key.

import { renameSync, symlinkSync } from 'node:fs'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { EARLY, first, PAST, REMOVED, second, stranger, TODAY, third } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const journal = 'audit.journal'
const early = `audit-${EARLY}.ndjson`
const past = `audit-${PAST}.ndjson`
const today = `audit-${TODAY}.ndjson`
const cover = `audit-${REMOVED}.cover`

export const journalManipulations: readonly Manipulation[] = [
  {
    title: 'a time in the journal is edited',
    tamper: (f) => f.editLine(journal, 7, (line) => line.replace('T10:00:00.000Z', 'T11:00:00.000Z')),
    found: [`${journal}:7: bad_signature`],
  },
  {
    title: 'a range is edited',
    tamper: (f) => f.editLine(journal, 3, (line) => line.replace(/,6\]\]/, ',5]]')),
    found: [`${journal}:3: bad_signature`],
  },
  {
    title: 'a root in the journal is edited',
    tamper: (f) => f.editLine(journal, 7, (line) => line.replace(/"root":"..../, '"root":"AAAA')),
    found: [`${journal}:7: bad_signature`],
  },
  {
    title: 'white space is added to a journal line',
    tamper: (f) => f.editLine(journal, 7, (line) => line.replace('{', '{ ')),
    found: [`${journal}:7: not_canonical`],
  },
  {
    title: 'a seal is deleted',
    tamper: (f) => f.lines(journal, (l) => l.toSpliced(7, 1)),
    found: [`${journal}:8: missing_journal`],
  },
  {
    title: 'two journal lines are deleted',
    tamper: (f) => f.lines(journal, (l) => l.toSpliced(5, 2)),
    found: [`${journal}:6: missing_journal`],
  },
  {
    title: 'a seal and its records are deleted',
    tamper: (f) => {
      f.lines(journal, (l) => l.toSpliced(5, 1))
      f.lines(early, (l) => l.slice(0, 6))
    },
    found: [`${journal}:6: missing_journal`],
  },
  {
    title: 'the genesis is deleted',
    tamper: (f) => f.lines(journal, (l) => l.slice(1)),
    found: [`${journal}:1: missing_genesis`],
  },
  {
    title: 'the genesis is edited',
    tamper: (f) => f.editLine(journal, 1, (line) => line.replace('"retention_days":2', '"retention_days":9')),
    found: [`${journal}:1: bad_signature`],
  },
  {
    title: 'the last journal line is deleted',
    tamper: (f) => f.lines(journal, (l) => l.slice(0, -1)),
    found: [`${journal}:13: truncated`],
  },
  {
    title: 'the journal is cut within a line',
    tamper: (f) => f.edit(journal, (text) => text.slice(0, -20)),
    found: [`${journal}:13: truncated`],
  },
  {
    title: 'the journal is emptied',
    tamper: (f) => f.write(journal, ''),
    options: { allKeys: true },
    found: [`${journal}:1: missing_genesis`, `${journal}:1: truncated`],
  },
  {
    title: 'the journal is removed',
    tamper: (f) => f.remove(journal),
    options: { allKeys: true },
    found: [`${journal}:0: missing_file`],
  },
  {
    title: 'the journal, the checkpoints and the tree are removed',
    tamper: (f) => {
      f.remove(journal)
      f.remove('tree')
      for (const day of [REMOVED, EARLY, PAST, TODAY]) f.remove(`audit-${day}.checkpoint`)
    },
    options: { allowUnsealed: true, allKeys: true },
    found: [`${journal}:0: missing_file`],
  },
  {
    title: 'a journal line stands twice',
    tamper: (f) => f.lines(journal, (l) => l.toSpliced(8, 0, l[5]!)),
    found: [`${journal}:9: replayed`],
  },
  {
    title: 'two journal lines change places',
    tamper: (f) => f.lines(journal, (l) => l.with(5, l[6]!).with(6, l[5]!)),
    found: [`${journal}:7: reordered`],
  },
  {
    title: 'a line that is not a journal line is inserted',
    tamper: (f) => f.lines(journal, (l) => l.toSpliced(5, 0, 'hello')),
    found: [`${journal}:6: not_json`],
  },
  {
    title: 'a record is inserted into the journal',
    tamper: (f) => f.lines(journal, (l) => l.toSpliced(5, 0, f.line(early, 1))),
    found: [`${journal}:6: bad_journal`],
  },
  {
    title: 'a journal line of another log under the same key is inserted',
    tamper: (f, log) => {
      const line = log.journalLine({ kind: 'seal', ranges: [] }, second, { log_id: 'f'.repeat(32) })
      f.lines(journal, (l) => l.toSpliced(8, 0, line))
    },
    found: [`${journal}:9: foreign`],
  },
  {
    title: 'the holder of the key appends a line of an unknown kind',
    build: { after: (log) => void log.journal({ kind: 'note' } as never) },
    found: [`${journal}:14: bad_journal`],
  },
  {
    title: 'the holder of the key appends a line with a wrong leaf',
    build: { after: (log) => void log.journal({ kind: 'seal', ranges: [] }, second, { leaf: log.size + 5 }) },
    found: [`${journal}:14: missing_journal`],
  },
  {
    title: 'the holder of the key states a wrong root, and goes on',
    build: {
      before: (log) => {
        log.journal({ kind: 'seal', ranges: [] }, second, { root: `${'A'.repeat(43)}=` })
        log.checkpoint()
      },
    },
    found: [`${journal}:13: inconsistent`],
  },
  {
    title: 'the holder of the key seals lines once more',
    build: {
      after: (log) => {
        const end = log.days.get(EARLY)!.end
        log.journal({ kind: 'seal', ranges: [[EARLY, 0, end, 10]] }, second, { leaf: log.size + 10 })
      },
    },
    found: [`${journal}:14: bad_journal`],
  },
  {
    title: 'the holder of the key seals a range past a multiple of 4096 leaves away',
    build: {
      after: (log) => {
        log.journal(
          { kind: 'seal', ranges: [[TODAY, log.days.get(TODAY)!.end + 5, log.days.get(TODAY)!.end + 9, 1]] },
          second,
          {
            leaf: log.size + 1,
          },
        )
      },
    },
    found: [`${journal}:14: bad_journal`],
  },
  {
    title: 'a stranger signs the last journal line',
    build: {
      after: (log) => {
        log.journal({ kind: 'seal', ranges: [] }, stranger)
      },
    },
    found: [`${journal}:14: unknown_key`],
  },
  {
    title: 'a retired key signs a journal line',
    build: {
      after: (log) => {
        log.journal({ kind: 'seal', ranges: [] }, first)
        log.checkpoint()
      },
    },
    found: [`${journal}:14: revoked_key`],
  },
  {
    title: 'a key is introduced by a stranger and signs',
    build: {
      after: (log) => {
        log.journal({ kind: 'key', key: publicKeyLine(stranger.publicKey) }, stranger)
        log.checkpoint()
        log.record(TODAY, {}, stranger)
        log.seal({ signer: stranger })
      },
    },
    found: [`${journal}:14: unknown_key`, `${journal}:15: unknown_key`, `${today}:13: unknown_key`],
  },
  {
    title: 'the key that sealed is revoked from an earlier leaf on',
    build: {
      after: (log) => {
        log.journal({ kind: 'key', key: publicKeyLine(stranger.publicKey) })
        const until = log.size
        log.record(TODAY)
        log.seal()
        log.checkpointSigners = [stranger]
        log.journal({ kind: 'revoke', revoked: second.keyId, until }, stranger)
        log.checkpoint()
      },
    },
    found: [
      `${today}:13: revoked_key`,
      `${journal}:15: revoked_key`,
      `audit-${TODAY}.checkpoint:11: revoked_key`,
    ],
  },
  {
    title: 'the writer found that sealed bytes had changed',
    build: {
      after: (log) => {
        const { end } = log.days.get(PAST)!
        log.journal({ kind: 'fault', day: PAST, sealed: end, found: end, resume: end })
        log.checkpoint()
      },
    },
    tamper: (f) => f.editLine(past, 3, (line) => line.replace('acme', 'evil')),
    found: [`${past}:3: bad_signature`, `${journal}:14: fault`],
  },
  {
    title: 'sealed bytes had changed, and were restored after the writer found it',
    build: {
      after: (log) => {
        const { end } = log.days.get(PAST)!
        log.journal({ kind: 'fault', day: PAST, sealed: end, found: end, resume: end })
        log.checkpoint()
      },
    },
    found: [`${journal}:14: fault`],
  },
  {
    title: 'a day is removed before its retention has ended',
    build: { after: (log) => log.remove(PAST) },
    found: [`${journal}:14: early_removal`],
  },
  {
    title: 'a removal states another number of records',
    build: {
      after: (log) => {
        log.at = '2026-11-29T10:00:00.000Z'
        log.removed = { lines: 4 }
        log.remove(PAST)
      },
    },
    found: [`${journal}:14: bad_journal`],
  },
  {
    title: 'the removal is deleted from the journal',
    tamper: (f) => f.lines(journal, (l) => l.toSpliced(3, 1)),
    found: [`audit-${REMOVED}.ndjson:0: missing_file`, `${journal}:4: missing_journal`],
  },
  { title: 'a cover is removed', tamper: (f) => f.remove(cover), found: [`${cover}:0: missing_file`] },
  {
    title: 'a cover is edited',
    tamper: (f) => f.write(cover, Buffer.alloc(Buffer.from(f.text(cover)).length, 7)),
    found: [`${cover}:0: bad_cover`],
  },
  { title: 'a cover is cut', tamper: (f) => f.write(cover, ''), found: [`${cover}:0: bad_cover`] },
  {
    title: 'the holder of the key names a cover of other lines',
    build: {
      after: (log) => {
        log.at = '2026-11-29T10:00:00.000Z'
        log.removed = { cover: Buffer.alloc(64, 7) }
        log.remove(PAST)
      },
    },
    found: [`audit-${PAST}.cover:0: bad_cover`],
  },
  {
    title: 'a removed day comes back from a backup',
    tamper: (f, log) => f.write(`audit-${REMOVED}.ndjson`, `${log.recordLine(REMOVED, {}, third)}\n`),
    found: [`audit-${REMOVED}.ndjson:1: truncated`],
  },
  {
    title: 'the journal is a symbolic link',
    tamper: (f) => {
      renameSync(f.path(journal), f.path('elsewhere'))
      symlinkSync('elsewhere', f.path(journal))
    },
    cannotBeJudged: /not a regular file/,
  },
  {
    title: 'a key is stated to be introduced by a key that it introduced',
    tamper: (f, log) =>
      f.editLine(journal, 5, (line) => {
        const { sig: _, ...stated } = JSON.parse(line) as Record<string, unknown>
        return log.sign({ ...stated, key_id: third.keyId }, third)
      }),
    // No line that is rightly signed introduces the keys that signed from here on.
    found: [
      ...[5, 7, 8, 9, 10, 11, 12, 13].map((line) => `${journal}:${line}: unknown_key`),
      ...[past, today].flatMap((file) =>
        Array.from({ length: 14 }, (_, i) => `${file}:${i + 1}: unknown_key`),
      ),
      ...[1, 6, 11].map((line) => `audit-${PAST}.checkpoint:${line}: unknown_key`),
      ...[1, 6].map((line) => `audit-${TODAY}.checkpoint:${line}: unknown_key`),
      ...[PAST, TODAY].map((day) => `audit-${day}.checkpoint:0: missing_checkpoint`),
    ],
  },
]
