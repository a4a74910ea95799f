// Manipulations of the records in a daily log.

import { copyFileSync, mkdirSync, renameSync, symlinkSync } from 'node:fs'
import { EARLY, first, PAST, second, stranger, TODAY, third } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const past = `audit-${PAST}.ndjson`
const today = `audit-${TODAY}.ndjson`
const early = `audit-${EARLY}.ndjson`
const evil = (line: string) => line.replace('acme', 'evil')

export const recordManipulations: readonly Manipulation[] = [
  {
    title: 'a value is edited',
    tamper: (f) => f.editLine(past, 3, evil),
    found: [`${past}:3: bad_signature`],
  },
  {
    title: 'a value of the first record is edited',
    tamper: (f) => f.editLine(early, 1, evil),
    found: [`${early}:1: bad_signature`],
  },
  {
    title: 'a value of the last sealed record is edited',
    tamper: (f) => f.editLine(today, 12, evil),
    found: [`${today}:12: bad_signature`],
  },
  {
    title: 'a value of an unsealed record is edited',
    tamper: (f) => f.editLine(today, 13, evil),
    found: [`${today}:13: bad_signature`],
  },
  {
    title: 'a value becomes longer',
    tamper: (f) => f.editLine(past, 3, (line) => line.replace('acme', 'longer')),
    found: [`${past}:3: bad_signature`],
  },
  {
    title: 'the signature is changed',
    tamper: (f) => f.editLine(past, 3, (line) => line.replace(/"sig":"ed25519:.{4}/, '"sig":"ed25519:AAAA')),
    found: [`${past}:3: bad_signature`],
  },
  {
    title: 'the signature is removed',
    tamper: (f) => f.editLine(past, 3, (line) => line.replace(/"sig":"[^"]*",/, '')),
    found: [`${past}:3: bad_signature`],
  },
  {
    title: 'white space is added',
    tamper: (f) => f.editLine(past, 3, (line) => line.replace('{', '{ ')),
    found: [`${past}:3: not_canonical`],
  },
  {
    title: 'members change places',
    tamper: (f) =>
      f.editLine(past, 3, (line) => line.replace(/("latency_ms":1.5),("log_id":"[^"]*")/, '$2,$1')),
    found: [`${past}:3: not_canonical`],
  },
  {
    title: 'a member stands twice',
    tamper: (f) =>
      f.editLine(past, 3, (line) => line.replace('"tenant":"acme"', '"tenant":"evil","tenant":"acme"')),
    found: [`${past}:3: not_canonical`],
  },
  {
    title: 'a number has another form',
    tamper: (f) => f.editLine(past, 3, (line) => line.replace('1.5', '1.50')),
    found: [`${past}:3: not_canonical`],
  },
  {
    title: 'a line ends in CR LF',
    tamper: (f) => f.editLine(past, 3, (line) => `${line}\r`),
    found: [`${past}:3: not_canonical`],
  },
  {
    title: 'a byte order mark stands before the file',
    tamper: (f) => f.edit(past, (text) => `\ufeff${text}`),
    found: [`${past}:1: not_json`],
  },
  {
    title: 'a byte is not UTF-8',
    tamper: (f) => {
      const bytes = Buffer.from(f.text(past))
      bytes[bytes.indexOf('acme')] = 0xff
      f.write(past, bytes)
    },
    found: [`${past}:1: not_json`],
  },
  {
    title: 'a hole of zero bytes takes the place of a line',
    tamper: (f) => f.editLine(past, 3, (line) => '\0'.repeat(line.length)),
    found: [`${past}:3: not_json`],
  },
  {
    title: 'the holder of the key replaces a record',
    tamper: (f, log) => f.editLine(past, 3, () => log.recordLine(PAST, { tenant: 'evil' }, second)),
    found: [`${past}:3: edited`],
  },
  {
    title: 'a stranger replaces a record',
    tamper: (f, log) => f.editLine(past, 3, () => log.recordLine(PAST, {}, stranger)),
    found: [`${past}:3: unknown_key`],
  },
  {
    title: 'a retired key signs a record in place of another',
    tamper: (f, log) =>
      f.editLine(past, 3, (line) => log.recordLine(PAST, { seq: JSON.parse(line).seq }, first)),
    found: [`${past}:3: revoked_key`],
  },
  {
    title: 'a record is deleted',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(3, 1)),
    found: [`${past}:4: deleted`],
  },
  {
    title: 'the first record is deleted',
    tamper: (f) => f.lines(early, (l) => l.slice(1)),
    found: [`${early}:1: deleted`],
  },
  {
    title: 'records around the end of a range are deleted',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(5, 4)),
    found: [`${past}:6: deleted`],
  },
  {
    title: 'all records of one seal are deleted',
    tamper: (f) => f.lines(today, (l) => l.toSpliced(9, 3)),
    found: [`${today}:10: truncated`],
  },
  {
    title: 'the last sealed record is deleted, before the unsealed ones',
    tamper: (f) => f.lines(today, (l) => l.toSpliced(11, 1)),
    found: [`${today}:12: truncated`],
  },
  {
    title: 'the last records of a past day are deleted',
    tamper: (f) => f.lines(past, (l) => l.slice(0, -4)),
    found: [`${past}:11: truncated`],
  },
  {
    title: 'the last records of today are deleted, the unsealed ones too',
    tamper: (f) => f.lines(today, (l) => l.slice(0, 8)),
    found: [`${today}:9: truncated`],
  },
  {
    title: 'a past day is cut within a line',
    tamper: (f) => f.edit(past, (text) => text.slice(0, -100)),
    found: [`${past}:14: truncated`],
  },
  {
    title: 'the last newline of a past day is cut',
    tamper: (f) => f.edit(past, (text) => text.slice(0, -1)),
    found: [`${past}:14: truncated`],
  },
  { title: 'a past day is emptied', tamper: (f) => f.write(past, ''), found: [`${past}:1: truncated`] },
  { title: 'a past day is removed', tamper: (f) => f.remove(past), found: [`${past}:0: missing_file`] },
  { title: 'the first day is removed', tamper: (f) => f.remove(early), found: [`${early}:0: missing_file`] },
  { title: 'today is removed', tamper: (f) => f.remove(today), found: [`${today}:0: missing_file`] },
  {
    title: 'a past day is renamed to another day',
    tamper: (f) => renameSync(f.path(early), f.path('audit-2026-11-18.ndjson')),
    found: [
      ...Array.from({ length: 10 }, (_, i) => `audit-2026-11-18.ndjson:${i + 1}: revoked_key`),
      `${early}:0: missing_file`,
    ],
  },
  {
    title: 'a past day is replaced by a copy of another',
    tamper: (f) => copyFileSync(f.path(early), f.path(past)),
    found: [...Array.from({ length: 10 }, (_, i) => `${past}:${i + 1}: wrong_day`), `${past}:11: truncated`],
  },
  {
    title: 'the holder of the key inserts a record',
    tamper: (f, log) => f.lines(past, (l) => l.toSpliced(3, 0, log.recordLine(PAST, {}, second))),
    found: [`${past}:4: inserted`],
  },
  {
    title: 'a record is inserted before the first',
    tamper: (f, log) => f.lines(early, (l) => [log.recordLine(EARLY, {}, first), ...l]),
    found: [`${early}:1: inserted`],
  },
  {
    title: 'a line that is not a record is inserted',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(3, 0, 'hello')),
    found: [`${past}:4: not_json`],
  },
  {
    title: 'an empty line is inserted',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(3, 0, '')),
    found: [`${past}:4: not_json`],
  },
  {
    title: 'a line of the journal is inserted',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(3, 0, f.line('audit.journal', 2))),
    found: [`${past}:4: foreign`],
  },
  {
    title: 'a record of another log under the same key is inserted',
    tamper: (f, log) =>
      f.lines(past, (l) => l.toSpliced(3, 0, log.recordLine(PAST, { log_id: 'f'.repeat(16) }, second))),
    found: [`${past}:4: foreign`],
  },
  {
    title: 'a line is split in two',
    tamper: (f) => f.editLine(past, 3, (line) => `${line.slice(0, 80)}\n${line.slice(80)}`),
    found: [`${past}:3: not_json`, `${past}:4: not_json`],
  },
  {
    title: 'two lines are joined',
    tamper: (f) => f.edit(past, (text) => text.replace('}\n', '} ')),
    found: [`${past}:1: not_json`, `${past}:2: deleted`],
  },
  {
    title: 'two neighbours change places',
    tamper: (f) => f.lines(past, (l) => l.with(2, l[3]!).with(3, l[2]!)),
    found: [`${past}:3: reordered`],
  },
  {
    title: 'a record is moved far',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(2, 1).toSpliced(9, 0, l[2]!)),
    found: [`${past}:10: reordered`],
  },
  {
    title: 'a record is moved to another day',
    tamper: (f) => {
      const moved = f.line(early, 3)
      f.lines(early, (l) => l.toSpliced(2, 1))
      f.lines(past, (l) => l.toSpliced(4, 0, moved))
    },
    found: [`${early}:3: deleted`, `${past}:5: wrong_day`],
  },
  {
    title: 'a record stands twice',
    tamper: (f) => f.lines(past, (l) => l.toSpliced(6, 0, l[2]!)),
    found: [`${past}:7: replayed`],
  },
  {
    title: 'a sealed record is repeated at the end',
    tamper: (f) => f.lines(today, (l) => [...l, l[2]!]),
    found: [`${today}:15: replayed`],
  },
  {
    title: 'an unsealed record is repeated',
    tamper: (f) => f.lines(today, (l) => [...l, l[13]!]),
    found: [`${today}:15: replayed`],
  },
  {
    title: 'a record of another log under the same key is appended',
    tamper: (f, log) =>
      f.lines(today, (l) => [...l, log.recordLine(TODAY, { log_id: 'f'.repeat(16) }, second)]),
    found: [`${today}:15: foreign`],
  },
  {
    title: 'a stranger appends a record',
    tamper: (f, log) => f.lines(today, (l) => [...l, log.recordLine(TODAY, {}, stranger)]),
    found: [`${today}:15: unknown_key`],
  },
  {
    title: 'a revoked key signs an appended record',
    tamper: (f, log) => f.lines(today, (l) => [...l, log.recordLine(TODAY, {}, third)]),
    found: [`${today}:15: revoked_key`],
  },
  {
    title: 'a record of another day is appended',
    tamper: (f, log) =>
      f.lines(today, (l) => [...l, log.recordLine(TODAY, { ts: `${PAST}T10:00:00.000Z` }, second)]),
    found: [`${today}:15: wrong_day`],
  },
  {
    title: 'a stranger adds a record that names all numbers as lost',
    tamper: (f, log) => {
      const lost = [[0, Number.MAX_SAFE_INTEGER - 1]]
      const seq = `aaaaaaaaaaaaaaaa:${Number.MAX_SAFE_INTEGER}`
      f.lines(today, (l) => [...l, log.recordLine(TODAY, { seq, lost }, stranger)])
    },
    found: [`${today}:15: unknown_key`],
  },
  {
    title: 'the unsealed records are deleted',
    tamper: (f) => f.lines(today, (l) => l.slice(0, 12)),
    found: [],
    undetectable: 'nothing is signed over them yet; they are as if never written',
  },
  {
    title: 'the last unsealed line is cut',
    tamper: (f) => f.edit(today, (text) => text.slice(0, -30)),
    found: [],
    undetectable: 'a writer that dies leaves the same; the report names the torn line',
  },
  {
    title: 'a day that never was is added by a stranger',
    tamper: (f, log) => f.write('audit-2026-11-17.ndjson', `${log.recordLine('2026-11-17', {}, stranger)}\n`),
    found: ['audit-2026-11-17.ndjson:1: unknown_key'],
  },
  {
    title: 'a daily log is a symbolic link',
    tamper: (f) => {
      renameSync(f.path(past), f.path('elsewhere'))
      symlinkSync('elsewhere', f.path(past))
    },
    cannotBeJudged: /not a regular file/,
  },
  {
    title: 'a daily log is a folder',
    tamper: (f) => {
      f.remove(past)
      mkdirSync(f.path(past))
    },
    cannotBeJudged: /not a regular file/,
  },
]
