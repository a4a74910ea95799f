// Manipulations of records before they are sealed: the tree then covers what is left.

import { first, PAST, stranger, TODAY } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const today = `audit-${TODAY}.ndjson`

export const sealingManipulations: readonly Manipulation[] = [
  {
    title: 'a record is withheld before it is sealed',
    build: { before: (log) => void log.recordLine(TODAY), after: () => undefined },
    found: [],
    undetectable: 'no later record of the session shows that a number is missing',
  },
  {
    title: 'a record is withheld before it is sealed, and later ones follow',
    build: {
      before: (log) => {
        log.recordLine(TODAY)
        log.record(TODAY)
      },
    },
    found: [`${today}:13: missing`],
  },
  {
    title: 'a record is withheld among the unsealed ones',
    build: {
      after: (log) => {
        log.recordLine(TODAY)
        log.record(TODAY)
      },
    },
    found: [],
    undetectable: 'it may still be on its way; the next seals decide',
  },
  {
    title: 'a record is repeated before it is sealed',
    build: { before: (log) => log.append(TODAY, log.days.get(TODAY)?.lines[4] ?? '') },
    found: [`${today}:13: replayed`],
  },
  {
    title: 'a record of another log is sealed',
    build: { before: (log) => log.record(TODAY, { log_id: 'f'.repeat(16), seq: 'cccccccccccccccc:0' }) },
    found: [`${today}:13: foreign`],
  },
  {
    title: 'a record of a stranger is sealed',
    build: { before: (log) => log.record(TODAY, {}, stranger) },
    found: [`${today}:13: unknown_key`],
  },
  {
    title: 'a record of a retired key is sealed',
    build: { before: (log) => log.record(TODAY, {}, first) },
    found: [`${today}:13: revoked_key`],
  },
  {
    title: 'a record without a sequence number is sealed',
    build: { before: (log) => log.record(TODAY, { seq: null }) },
    found: [`${today}:13: bad_sequence`],
  },
  {
    title: 'a record of another day is sealed',
    build: { before: (log) => log.record(TODAY, { ts: `${PAST}T23:00:00.000Z` }) },
    found: [`${today}:13: wrong_day`],
  },
  {
    title: 'a line that is not a record is sealed',
    build: { before: (log) => log.append(TODAY, 'hello') },
    found: [`${today}:13: not_json`],
  },
]
