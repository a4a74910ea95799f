// The writes of a thief of a key while the writers of the log are stopped, and whether the next writer trusts them.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { type LocalDevSigner, resumeLog, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder, signerOf } from '../../../../support/audit-log.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, codeOf, DAY, envelope } from '../writer/records.js'
import { sealedLog } from './sealed-log.js'

const [first, next, thief] = [7, 8, 99].map(signerOf) as [LocalDevSigner, LocalDevSigner, LocalDevSigner]
const line = (key: LocalDevSigner) => publicKeyLine(key.publicKey)

interface Case {
  readonly title: string
  readonly write: (log: LogBuilder) => void
  readonly opensWith: LocalDevSigner
  readonly code: string
  /** Changes the journal after the tree is written. */
  readonly edit?: (lines: string[], log: LogBuilder) => string[]
}

/** A seal that repeats what the lines before say, except for the keys. */
function plant(
  log: LogBuilder,
  keys: readonly (readonly [string, number, number | null, string | null])[],
  by = log.signer,
) {
  log.journal(
    {
      kind: 'seal',
      ranges: [],
      ends: [[DAY, log.days.get(DAY)!.end]],
      keys: keys.toSorted(([a, from], [b, to]) => from - to || (a < b ? -1 : 1)),
      retention_days: 30,
      since: log.at,
    },
    by,
  )
  log.checkpoint([by])
}

/** A line of the log is written by `next`, and `first` is revoked at the leaf after it. */
function revoked(log: LogBuilder): void {
  log.journal({ kind: 'key', key: line(next) })
  log.signer = next
  log.checkpointSigners = [next]
  log.record(DAY)
  log.seal()
  log.journal({ kind: 'revoke', revoked: first.keyId, until: log.size })
  log.checkpoint()
}

/** The key of the genesis enters, `next` at leaf 4. */
const keysOf = (until: number | null) =>
  [
    [line(first), 0, until, null],
    [line(next), 4, null, first.keyId],
  ] as const

const cases: readonly Case[] = [
  {
    title: 'continues if a seal repeats the keys of the lines before it',
    write: (log) => {
      revoked(log)
      plant(log, keysOf(6))
    },
    opensWith: next,
    code: 'resolved',
  },
  {
    title: 'continues if no seal repeats anything',
    write: revoked,
    opensWith: next,
    code: 'resolved',
  },
  {
    title: 'does not trust a key that the thief of a former key names in a seal',
    write: (log) => {
      revoked(log)
      plant(log, [...keysOf(6), [line(thief), 0, null, null]], thief)
    },
    opensWith: next,
    code: 'log_unlinked',
  },
  {
    title: 'does not trust the thief of a revoked key who trusts it again in a seal',
    write: (log) => {
      revoked(log)
      plant(log, keysOf(null), first)
    },
    opensWith: next,
    code: 'log_unlinked',
  },
  {
    title:
      'does not trust a key that was planted while the stolen key was trusted, once another key opens the log',
    write: (log) => {
      plant(log, [
        [line(first), 0, null, null],
        [line(thief), 1, null, first.keyId],
      ])
      log.journal({ kind: 'key', key: line(next) })
      log.checkpoint()
    },
    opensWith: next,
    code: 'log_unlinked',
  },
  {
    title: 'does not trust a seal of a former key in the place of the line that revokes it',
    write: (log) => {
      revoked(log)
      log.signer = first
      log.seal({ checkpoint: false })
      log.checkpoint([first])
    },
    edit: (lines, log) => {
      const { leaf, root } = JSON.parse(lines[4]!)
      return lines.with(4, log.journalLine({ kind: 'seal', ranges: [] }, first, { leaf, root }))
    },
    opensWith: next,
    code: 'log_unlinked',
  },
  {
    title: 'does not trust a journal that forks before a checkpoint of its own key',
    write: (log) => {
      log.journal({ kind: 'key', key: line(next) })
      // A checkpoint of a tree that holds other lines.
      const own = log.note([next], { size: log.size, root: '\0'.repeat(32) })
      writeFileSync(join(dir.path, `audit-${DAY}.checkpoint`), own, { flag: 'a' })
      log.seal()
      log.signer = next
      log.seal({ checkpoint: false })
      log.checkpoint([first])
    },
    opensWith: next,
    code: 'log_unlinked',
  },
]

const dir = temporaryDir()

describe('a writer that opens a log in which a thief has written', () => {
  for (const { title, write, opensWith, code, edit } of cases) {
    it(title, async () => {
      const log = new LogBuilder(dir.path, { seed: 7, at: `${DAY}T10:00:00.000Z` })
      log.record(DAY)
      log.seal()
      write(log)
      log.finish()
      if (edit !== undefined) {
        const path = join(dir.path, 'audit.journal')
        const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1)
        writeFileSync(path, `${edit(lines, log).join('\n')}\n`)
      }
      await resumeLog(dir.path)
      const appender = appenderIn(dir.path, { signer: opensWith })
      expect(await codeOf(appender.append(envelope()))).to.equal(code)
      await appender.close()
      if (code !== 'resolved') return
      const { journal } = sealedLog(dir.path)
      expect(journal.at(-1)?.['keys']).to.deep.equal(keysOf(6))
      const report = await verifyLog(dir.path, { keys: [verifierFromPublicKey(first.publicKey)] })
      expect(report.failures).to.deep.equal([])
    })
  }
})
