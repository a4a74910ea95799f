// Manipulations of checkpoints, of the tree, and of the directory as a whole.

import { cpSync, rmSync } from 'node:fs'
import { EMPTY_ROOT } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { noteOf } from '../../../../../../support/audit-log.js'
import { buildLog, EARLY, type Files, first, PAST, REMOVED, second, stranger, TODAY } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const past = `audit-${PAST}.ndjson`
const today = `audit-${TODAY}.ndjson`
const notes = `audit-${PAST}.checkpoint`
const newest = `audit-${TODAY}.checkpoint`
const journal = 'audit.journal'
const HEAD = 'head-kept-elsewhere'

/** Replaces this log by another one, and keeps a head of this one. */
function replaceBy(files: Files, build: () => void): void {
  const head = files.text(newest)
  rmSync(files.dir, { recursive: true })
  build()
  files.write(HEAD, head)
}

const removeTree = (f: Files) => f.remove('tree')
const damageTree = (f: Files) => f.write('tree/0/0', Buffer.alloc(2_048, 7))

export const checkpointManipulations: readonly Manipulation[] = [
  {
    title: 'the size of a checkpoint is edited',
    tamper: (f) => f.notes(PAST, (all) => all.with(0, all[0]!.replace(/\n(\d+)\n/, '\n999\n'))),
    found: [`${notes}:1: bad_signature`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the root of a checkpoint is edited',
    tamper: (f) =>
      f.notes(PAST, (all) =>
        all.with(
          1,
          all[1]!.replace(/\n..../g, (part) =>
            part.includes('svc') || part.includes('—') || /\d/.test(part) ? part : '\nAAAA',
          ),
        ),
      ),
    found: [`${notes}:6: bad_signature`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the size has another form',
    tamper: (f) => f.notes(PAST, (all) => all.with(0, all[0]!.replace(/\n(\d+)\n/, '\n0$1\n'))),
    found: [`${notes}:1: bad_checkpoint`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the signature of a checkpoint is edited',
    tamper: (f) => f.notes(PAST, (all) => all.with(0, all[0]!.replace(/.{6}\n$/, 'AAAA==\n'))),
    found: [`${notes}:1: bad_signature`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the signature of a checkpoint is removed',
    tamper: (f) => f.notes(PAST, (all) => all.with(0, all[0]!.replace(/\n—.*\n$/, '\n'))),
    found: [`${notes}:1: bad_checkpoint`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the origin of a checkpoint is edited',
    tamper: (f) =>
      f.notes(PAST, (all) => all.with(1, all[1]!.replace('svc-audit.invalid', 'svc-audit.evil'))),
    found: [`${notes}:1: bad_checkpoint`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'an extension line is added to a checkpoint',
    tamper: (f) => f.notes(PAST, (all) => all.with(0, all[0]!.replace('\n\n', '\nmore\n\n'))),
    found: [`${notes}:1: bad_checkpoint`, `${notes}:0: missing_checkpoint`],
  },
  {
    title: 'a checkpoint is deleted',
    tamper: (f) => f.notes(PAST, (all) => all.toSpliced(1, 1)),
    found: [`${notes}:0: missing_checkpoint`],
  },
  {
    title: 'the checkpoints of a day are removed',
    tamper: (f) => f.remove(notes),
    found: [`${notes}:0: missing_checkpoint`],
  },
  {
    title: 'all checkpoints are removed',
    tamper: (f) => {
      for (const day of [REMOVED, EARLY, PAST, TODAY]) f.remove(`audit-${day}.checkpoint`)
    },
    found: [
      `audit-${EARLY}.checkpoint:0: missing_checkpoint`,
      `${notes}:0: missing_checkpoint`,
      `${newest}:0: missing_checkpoint`,
    ],
  },
  {
    title: 'the newest checkpoint is deleted',
    tamper: (f) => f.notes(TODAY, (all) => all.slice(0, -1)),
    found: [],
    undetectable: 'a writer that dies leaves the same; the journal line before it signs the same leaves',
  },
  {
    title: 'the newest checkpoint is cut',
    tamper: (f) => f.edit(newest, (text) => text.slice(0, -10)),
    found: [],
    undetectable: 'a writer that dies leaves the same; the report names the torn note',
  },
  {
    title: 'other text stands before the checkpoints',
    tamper: (f) => f.edit(notes, (text) => `hello\n${text}`),
    found: [`${notes}:1: bad_checkpoint`],
  },
  {
    title: 'the checkpoints of a day change places',
    tamper: (f) => f.notes(PAST, (all) => all.toReversed()),
    found: [],
    undetectable: 'their order states nothing: each has its size',
  },
  {
    title: 'a checkpoint stands twice',
    tamper: (f) => f.notes(PAST, (all) => [...all, all[0]!]),
    found: [],
    undetectable: 'a copy states nothing new',
  },
  {
    title: 'a stranger signs a checkpoint',
    tamper: (f, log) => f.edit(newest, (text) => text + log.note([stranger], { size: log.size + 1 })),
    found: [`${newest}:11: unknown_key`],
  },
  {
    title: 'a retired key signs a checkpoint',
    tamper: (f, log) => f.edit(newest, (text) => text + log.note([first])),
    found: [`${newest}:11: revoked_key`],
  },
  {
    title: 'the holder of the key signs another root',
    tamper: (f, log) => f.edit(newest, (text) => text + log.note([second], { root: EMPTY_ROOT })),
    found: [`${newest}:11: inconsistent`],
  },
  {
    title: 'the holder of the key signed another root earlier',
    tamper: (f, log) => {
      const size = Number(f.text(notes).split('\n')[1])
      f.edit(notes, (text) => text + log.note([second], { root: EMPTY_ROOT, size }))
    },
    found: [`${notes}:16: inconsistent`],
  },
  {
    title: 'the holder of the key signs a size at which no journal line ends',
    tamper: (f, log) => {
      const size = Number(f.text(notes).split('\n')[1]) - 1
      f.edit(notes, (text) => text + log.note([second], { size }))
    },
    found: [`${notes}:16: bad_checkpoint`],
  },
  {
    title: 'a checkpoint covers more than the journal',
    tamper: (f, log) => f.edit(newest, (text) => text + log.note([second], { size: log.size + 1 })),
    found: [`${journal}:14: truncated`],
  },
  {
    title: 'a checkpoint of another log under the same key is appended',
    tamper: (f) => {
      f.edit(
        newest,
        (text) => text + noteOf({ origin: 'svc-audit.invalid/other', size: 9, root: EMPTY_ROOT }, [second]),
      )
    },
    found: [`${newest}:11: bad_checkpoint`],
  },
  {
    title: 'the tree is removed',
    tamper: removeTree,
    found: [],
    undetectable: 'it is derived, and nothing is lost',
  },
  {
    title: 'the tree is damaged',
    tamper: damageTree,
    found: [],
    undetectable: 'it is derived, and nothing is lost',
  },
  {
    title: 'the tree is removed and a record edited',
    tamper: (f) => {
      removeTree(f)
      f.editLine(past, 3, (line) => line.replace('acme', 'evil'))
    },
    found: [`${past}:3: bad_signature`, `${past}:1: altered`],
  },
  {
    title: 'the tree is damaged and a record deleted',
    tamper: (f) => {
      damageTree(f)
      f.lines(past, (l) => l.toSpliced(3, 1))
    },
    found: [`${past}:1: truncated`],
  },
  {
    title: 'the tree is removed and the holder of the key replaces a record',
    tamper: (f, log) => {
      removeTree(f)
      f.editLine(past, 3, (line) => log.recordLine(PAST, { seq: JSON.parse(line).seq }, second))
    },
    found: [`${past}:1: altered`],
  },
  {
    title: 'the tree is removed and two records change places',
    tamper: (f) => {
      removeTree(f)
      f.lines(past, (l) => l.with(2, l[3]!).with(3, l[2]!))
    },
    found: [`${past}:1: altered`],
  },
  {
    title: 'the tree is removed and the last record of a range replaced by a longer one of another key',
    tamper: (f, log) => {
      removeTree(f)
      f.editLine(past, 7, (line) => {
        const { sig: _, ...record } = JSON.parse(line)
        return log.sign({ ...record, key_id: stranger.keyId, agentVariables: { more: 'text' } }, stranger)
      })
    },
    found: [`${past}:1: altered`, `${past}:8: not_json`, `${past}:14: not_json`],
  },
  {
    title: 'the whole directory is rolled back',
    tamper: (f) => replaceBy(f, () => buildLog(f.dir, { after: () => undefined }).seal()),
    found: [],
    undetectable: 'every file is as the writer left it; only a head kept elsewhere shows it',
  },
  {
    title: 'the whole directory is rolled back, and a head was kept elsewhere',
    tamper: (f) => {
      const log = buildLog(f.dir.concat('-later'))
      log.seal()
      cpSync(f.dir.concat('-later/', newest), f.path(HEAD))
    },
    options: { against: HEAD },
    found: [`${journal}:0: rolled_back`],
  },
  {
    title: 'the holder of the key rewrites the log',
    tamper: (f) => replaceBy(f, () => void buildLog(f.dir, { before: (log) => log.record(TODAY) })),
    found: [],
    undetectable: 'all signatures are those of the key; only a head kept elsewhere shows it',
  },
  {
    title: 'the holder of the key rewrites the log, and a head was kept elsewhere',
    tamper: (f) => replaceBy(f, () => void buildLog(f.dir, { before: (log) => log.record(TODAY) })),
    options: { against: HEAD },
    found: [`${journal}:0: forked`],
  },
  {
    title: 'a record is edited, and a head was kept elsewhere',
    tamper: (f) => {
      f.write(HEAD, f.text(newest))
      f.editLine(past, 3, (line) => line.replace('acme', 'evil'))
    },
    options: { against: HEAD },
    found: [`${past}:3: bad_signature`],
  },
  {
    title: 'the log agrees with a head kept elsewhere',
    tamper: (f) => f.write(HEAD, f.text(newest)),
    options: { against: HEAD },
    found: [],
  },
  {
    title: 'the head kept elsewhere is edited',
    tamper: (f) => f.write(HEAD, f.text(newest).replace(/\n(\d+)\n/, '\n3\n')),
    options: { against: HEAD },
    found: [`${HEAD}:1: bad_signature`],
  },
  {
    title: 'another log of the same key is shown',
    tamper: (f) => replaceBy(f, () => void buildLog(f.dir, { logId: 'e'.repeat(32) })),
    found: [],
    undetectable: 'it is an intact log; --origin or a head kept elsewhere shows that it is another one',
  },
  {
    title: 'another log of the same key is shown, and a head was kept elsewhere',
    tamper: (f) => replaceBy(f, () => void buildLog(f.dir, { logId: 'e'.repeat(32) })),
    options: { against: HEAD },
    found: [`${journal}:0: wrong_origin`, `${journal}:0: wrong_origin`],
  },
  {
    title: 'another log of the same key is shown, and the origin is known',
    tamper: (f) => replaceBy(f, () => void buildLog(f.dir, { logId: 'e'.repeat(32) })),
    options: { origin: 'svc-audit.invalid/00112233445566778899aabbccddeeff' },
    found: [`${journal}:0: wrong_origin`],
  },
  {
    title: 'all files are removed',
    tamper: (f) => {
      for (const name of [today, past, `audit-${EARLY}.ndjson`, journal, 'tree']) f.remove(name)
      for (const day of [REMOVED, EARLY, PAST, TODAY]) f.remove(`audit-${day}.checkpoint`)
    },
    cannotBeJudged: /there is no log/,
  },
]
