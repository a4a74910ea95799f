// Manipulations of what a seal repeats of the lines before, by holders of a present or former key; and lines that a
// search for bytes takes for another kind.

import type { JournalBody, KeySpan, SealBody } from '@svc/plugin-audit/internal/log/format/journal-line'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { type LogBuilder, signerOf } from '../../../../../../support/audit-log.js'
import { EARLY, first, PAST, REMOVED, second, stranger, TODAY, third } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const journal = 'audit.journal'
const today = `audit-${TODAY}.ndjson`
const next = 14

/** An unknown member, which a reader ignores, with the bytes of a seal's kind. */
const SEAL_WITHIN = { note: { kind: 'seal' } }

const key = (signer: typeof first) => publicKeyLine(signer.publicKey)

/** The keys of the log, as its lines state them. */
function keysOf(log: LogBuilder): KeySpan[] {
  const lines = log.lines.map((line) => JSON.parse(line))
  const spans = new Map<string, [string, number, number | null, string | null]>()
  for (const { kind, leaf, key: entered, key_id: by, retired, revoked, until } of lines) {
    const id = [first, second, third, stranger].find((signer) => key(signer) === entered)?.keyId ?? ''
    if (kind === 'genesis') spans.set(id, [entered, 0, null, null])
    else if (entered) spans.set(id, [entered, leaf + 1, null, by])
    const span = spans.get(retired ?? revoked)
    if (span) span[2] = until
  }
  return [...spans.values()]
}

/** The members with which a seal without ranges repeats the lines before. */
function summaryOf(log: LogBuilder): Required<Omit<SealBody, 'kind' | 'ranges'>> {
  return {
    ends: [...log.days].map(([day, { end }]): [string, number] => [day, end]).sort(),
    keys: keysOf(log),
    since: '2026-11-19T10:00:00.000Z',
    retention_days: 2,
  }
}

const planted = (signer: typeof first): KeySpan => [key(signer), 0, null, null]

/** A seal of `signer`, with a checkpoint, that says something else in the members that `change` returns. */
function saying(
  change: (summary: ReturnType<typeof summaryOf>, log: LogBuilder) => object,
  signer = second,
): NonNullable<Manipulation['build']> {
  return {
    after: (log) => {
      const summary = summaryOf(log)
      const body = { kind: 'seal', ranges: [], ...summary, ...change(summary, log) } as unknown as JournalBody
      log.journal(body, signer)
      log.checkpoint([signer])
    },
  }
}

const wrong = [`${journal}:${next}: bad_journal`]

/** Two days after the day that is removed. */
function retainThenRemove(log: LogBuilder, days: number): void {
  log.at = '2026-11-22T10:00:00.000Z'
  log.journal({ kind: 'retention', days })
  log.remove(PAST)
}

export const summaryManipulations: readonly Manipulation[] = [
  { title: 'a seal repeats what the lines before it say', build: saying(() => ({})), found: [] },
  {
    title: 'the holder of the key names a key in a seal that no line introduced',
    build: saying(({ keys }) => ({ keys: [...keys, [key(stranger), 31, null, second.keyId]] })),
    found: wrong,
  },
  {
    title: 'the holder of the key trusts a revoked key again in a seal',
    build: saying(({ keys }) => ({ keys: keys.map(([line, from, , by]) => [line, from, null, by]) })),
    found: wrong,
  },
  {
    title: 'the holder of the key leaves a key out of a seal',
    build: saying(({ keys }) => ({ keys: keys.slice(0, -1) })),
    found: wrong,
  },
  {
    title: 'the holder of the key states another end of a day in a seal',
    build: saying(({ ends }) => ({ ends: ends.map(([day, end]) => [day, end - 1]) })),
    found: wrong,
  },
  {
    title: 'the holder of the key leaves a day out of a seal',
    build: saying(({ ends }) => ({ ends: ends.slice(1) })),
    found: wrong,
  },
  {
    title: 'the holder of the key says in a seal that a removed day has bytes',
    build: saying(({ ends }) => ({ ends: [[REMOVED, 5], ...ends] })),
    found: wrong,
  },
  {
    title: 'the holder of the key says in a seal that the clock never stepped',
    build: saying(() => ({ since: '2026-11-15T10:00:00.000Z' })),
    found: wrong,
  },
  {
    title: 'the holder of the key states another retention in a seal',
    build: saying(() => ({ retention_days: 1 })),
    found: wrong,
  },
  {
    title: 'the holder of the key leaves out a part of what a seal repeats',
    build: saying(() => ({ keys: undefined })),
    found: wrong,
  },
  {
    title: 'the thief of a retired key trusts it again in a seal of its own',
    build: saying(({ keys }) => ({ keys: keys.map(([line, from, , by]) => [line, from, null, by]) }), first),
    found: [`${journal}:${next}: revoked_key`, `audit-${TODAY}.checkpoint:11: revoked_key`],
  },
  {
    title: 'the thief of a retired key names a key of its own in a seal, and signs with it',
    build: {
      after: (log) => {
        const keys = [...summaryOf(log).keys, planted(stranger)]
        log.journal({ kind: 'seal', ranges: [], ...summaryOf(log), keys }, first)
        log.record(TODAY, {}, stranger)
        log.signer = stranger
        log.checkpointSigners = [stranger]
        log.seal()
      },
    },
    found: [
      `${journal}:${next}: revoked_key`,
      `${journal}:${next + 1}: unknown_key`,
      `${today}:13: unknown_key`,
      `audit-${TODAY}.checkpoint:11: unknown_key`,
      `audit-${TODAY}.checkpoint:0: missing_checkpoint`,
    ],
  },
  {
    title: 'a key that was stolen while it was trusted is planted in a seal, and signs after the revocation',
    build: {
      after: (log) => {
        log.journal({ kind: 'key', key: key(signerOf(10)) })
        const stolen = log.size
        const keys = [...summaryOf(log).keys, planted(stranger)]
        log.journal({ kind: 'seal', ranges: [], ...summaryOf(log), keys })
        log.signer = signerOf(10)
        log.checkpointSigners = [signerOf(10)]
        log.journal({ kind: 'revoke', revoked: second.keyId, until: stolen })
        log.checkpoint()
        log.record(TODAY, {}, stranger)
        log.signer = stranger
        log.seal()
      },
    },
    found: [
      `${journal}:${next + 1}: revoked_key`,
      `${journal}:${next + 3}: unknown_key`,
      `${today}:13: unknown_key`,
      `audit-${TODAY}.checkpoint:0: missing_checkpoint`,
    ],
  },
  {
    title: 'a day is removed after its retention was shortened',
    build: { after: (log) => retainThenRemove(log, 1) },
    found: [],
  },
  {
    title: 'a day is removed within a retention that was prolonged',
    build: { after: (log) => retainThenRemove(log, 3) },
    found: [`${journal}:${next + 1}: early_removal`],
  },
  {
    title: 'a day is removed before its retention is shortened',
    build: {
      after: (log) => {
        log.at = '2026-11-22T10:00:00.000Z'
        log.remove(PAST)
        log.journal({ kind: 'retention', days: 1 })
        log.checkpoint()
      },
    },
    found: [`${journal}:${next}: early_removal`],
  },
  {
    title: 'a stranger shortens the retention',
    build: { after: (log) => void log.journal({ kind: 'retention', days: 1 }, stranger) },
    found: [`${journal}:${next}: unknown_key`],
  },
  {
    title: 'a retention of no day is stated',
    build: { after: (log) => void log.journal({ kind: 'retention', days: 0 }) },
    found: wrong,
  },
  {
    title: 'checkpoints are removed under a retention that was prolonged since',
    build: {
      after: (log) => {
        log.at = '2026-11-22T10:00:00.000Z'
        log.seal()
        log.journal({ kind: 'retention', days: 9 })
        log.checkpoint()
      },
    },
    tamper: (f) => f.remove(`audit-${EARLY}.checkpoint`),
    found: [],
  },
  {
    title: 'checkpoints are removed within a retention that was prolonged',
    build: {
      after: (log) => {
        log.journal({ kind: 'retention', days: 9 })
        log.at = '2026-11-23T10:00:00.000Z'
        log.seal()
      },
    },
    tamper: (f) => f.remove(`audit-${PAST}.checkpoint`),
    found: [`audit-${PAST}.checkpoint:0: missing_checkpoint`],
  },
  {
    title: 'a line that revokes a key has the bytes of a seal in an unknown member',
    build: {
      after: (log) => {
        log.journal({ kind: 'key', key: key(stranger) })
        log.signer = stranger
        log.checkpointSigners = [stranger]
        log.journal({ kind: 'revoke', revoked: second.keyId, until: log.size, ...SEAL_WITHIN })
        log.record(TODAY, {}, second)
        log.seal()
      },
    },
    found: [`${today}:13: revoked_key`],
  },
  {
    title: 'a line that introduces a key has the bytes of a seal in an unknown member',
    build: {
      after: (log) => {
        log.journal({ kind: 'key', key: key(stranger), ...SEAL_WITHIN })
        log.record(TODAY, {}, stranger)
        log.signer = stranger
        log.checkpointSigners = [stranger]
        log.seal()
      },
    },
    found: [],
  },
  {
    title: 'a line that removes a day has the bytes of a seal in an unknown member',
    build: {
      after: (log) => {
        log.at = '2026-11-29T10:00:00.000Z'
        log.removed = { more: SEAL_WITHIN }
        log.remove(PAST)
      },
    },
    found: [],
  },
]
